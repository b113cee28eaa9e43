"""HTTP/1.1 as a machine without I/O: bytes in, events out; heads and pieces in, bytes out.

The grammar is llhttp's, by httptools. What it leaves open and a proxy must not is decided here, and nothing is lenient:
two readings of one message are how requests are smuggled past a proxy.
"""
