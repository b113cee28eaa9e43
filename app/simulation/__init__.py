"""A simulated model server: an engine model in virtual time, and an HTTP server for it."""
