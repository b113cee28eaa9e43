"""The life of one request, from arrival to its last byte. Start at `router.py`."""
