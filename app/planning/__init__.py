"""Turns a configuration into a plan: which plugins there are and how they are connected. Builds nothing."""
