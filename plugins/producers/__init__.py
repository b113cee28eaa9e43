"""Producers: facts about a request, found before it is scheduled."""
