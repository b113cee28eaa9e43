"""Health, metrics and debug pages, for operators."""
