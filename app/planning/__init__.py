"""From a configuration to a plan: which plugins there are, and how they are connected. Builds nothing."""
