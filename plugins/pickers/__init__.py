"""Pickers: pick endpoints by their scores."""
