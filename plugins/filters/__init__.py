"""Filters: remove endpoints that must not serve a request."""
