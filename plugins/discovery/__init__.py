"""Discovery: where endpoints come from."""
