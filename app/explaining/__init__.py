"""What `pointsman explain` reads and prints."""
