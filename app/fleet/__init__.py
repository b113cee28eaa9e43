"""What we know of the model servers: the pool, and how its metrics are kept fresh."""
