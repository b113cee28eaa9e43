"""Filters: which endpoints may serve a request."""
