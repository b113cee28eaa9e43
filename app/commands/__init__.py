"""The commands of `pointsman`, one module each."""
