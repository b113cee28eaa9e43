"""Reads YAML strictly, merges layers, validates the result, and reports what is wrong and where."""
