"""Replays a trace in virtual time through one or several configurations, on simulated engines. Start at `run.py`."""
