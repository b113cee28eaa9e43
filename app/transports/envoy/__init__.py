"""An Envoy that is started in the place of the standalone router, and asks this process where to send requests.

Start at `process.py`.
"""
