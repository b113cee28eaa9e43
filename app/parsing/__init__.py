"""Bytes to `InferenceRequest`, per API dialect. No I/O in here."""
