"""From a configuration to a plan: which plugins are built, how they hang together. Builds nothing itself."""
