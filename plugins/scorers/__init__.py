"""Scorers: rate how well each endpoint would serve a request."""
