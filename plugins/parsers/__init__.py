"""Parsers: what a request asks for, by the API that it speaks."""
