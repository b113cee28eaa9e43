"""`pointsman explain`: one decision, made offline, and how it is read and printed."""
