"""Logs and metrics. They implement the observers' protocols; nothing in `app` imports them."""
