"""Health, metrics and insight, for operators."""
