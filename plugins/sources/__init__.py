"""Sources and extractors: fetch the metrics of endpoints and extract their load."""
