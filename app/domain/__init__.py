"""Immutable values used on the request path. Standard library and numpy only, no I/O."""
