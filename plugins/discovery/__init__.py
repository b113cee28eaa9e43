"""Discovery: finds the endpoints of the pool."""
