"""Profile pickers: which profiles run for a request."""
