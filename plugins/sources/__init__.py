"""Sources and extractors: how the load of an endpoint is read."""
