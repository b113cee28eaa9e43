"""HTTP/1.1 without I/O: bytes in, events out; heads and body data in, bytes out.

The grammar is llhttp's, through httptools. What llhttp leaves open, and a proxy must not, is decided here. Nothing is
lenient: request smuggling needs a message that two parties read differently.
"""
