"""A simulated model server: the engine model on a clock of its own, and its HTTP face."""
