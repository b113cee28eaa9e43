"""Pickers: which of the scored endpoints it will be."""
