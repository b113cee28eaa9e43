"""Logs and metrics, as implementations of the observer protocols."""
