"""The decision: synchronous and pure. No I/O, no await, no logging."""
