"""`pointsman explain`: reads a request and endpoints, makes the decision offline, and prints it."""
