"""Producers: produce facts about a request before it is scheduled."""
