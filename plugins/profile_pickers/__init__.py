"""Profile pickers: choose the profiles that run for a request."""
