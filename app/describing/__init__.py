"""What `pointsman plugins` prints: for people, and as a page."""
