"""Parsers: parse the requests of one API each."""
