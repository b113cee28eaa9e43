"""Parses request bodies of each API to `InferenceRequest`. No I/O."""
