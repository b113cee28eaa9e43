"""TLS contexts for connections to endpoints, kept as long as somebody uses them."""

from __future__ import annotations

import ssl
import weakref
from pathlib import Path

from app.transports.tls import ClientTls, client_context

_Key = tuple[ClientTls, tuple[bytes, ...]]


class ClientContexts:
    """Gives the same context for the same options and contents of files, so that a reload keeps open connections."""

    def __init__(self) -> None:
        self._contexts: weakref.WeakValueDictionary[_Key, ssl.SSLContext] = weakref.WeakValueDictionary()

    def of(self, tls: ClientTls) -> ssl.SSLContext:
        """The context for `tls`. Raises `OSError` for files that can't be used."""
        files = tuple(Path(file).read_bytes() for file in (tls.ca_file, tls.cert_file, tls.key_file) if file)
        context = self._contexts.get((tls, files))
        if context is None:
            context = self._contexts[tls, files] = client_context(tls)
        return context
