"""Requests to the provider of single sign-on: each connection has a deadline, each answer a size.

The operator named the provider, and still it may be ill: one that sends a byte every now and then, or without end,
holds nobody's thread for longer than the deadline of deliveries (``WEIR_DELIVERY_S``).
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

MOST_BYTES = 1 << 20  # of an answer, and of what it is unpacked to


class _Cut:
    """Shuts the socket down at the deadline: also where it has become TLS's, or the connection is closed and an answer
    is still read from it."""

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()  # type: ignore[misc]
        watch = threading.Timer(settings.DELIVERY_S, _cut, [made.dup()])
        watch.daemon = True
        watch.start()
        return made


def _cut(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.shutdown(socket.SHUT_RDWR)


class _Plain(_Cut, HTTPConnection):
    pass


class _Tls(_Cut, HTTPSConnection):
    pass


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _Tls


class _Bounded(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        until_s = time.monotonic() + settings.DELIVERY_S
        answer = super().send(request, **{**options, "stream": True})
        try:
            content = answer.raw.read(MOST_BYTES + 1, decode_content=False)
        except (HTTPError, OSError) as error:
            raise requests.ConnectionError(f"the answer is incomplete: {error!r}", request=request) from None
        finally:
            answer.close()
        if time.monotonic() >= until_s:  # what came until then may look like the end
            raise requests.Timeout(f"not within {settings.DELIVERY_S:g} s", request=request)
        if len(content) > MOST_BYTES:
            raise requests.ConnectionError(f"the answer is over {MOST_BYTES:,} bytes", request=request)
        answer._content = content
        return answer


def provider_session() -> requests.Session:
    """A session that asks the provider, uncompressed and without a redirect; errors are those of requests.

    It goes by HTTPS, whatever addresses the provider names, for nothing else vouches for what is said there; by plain
    HTTP to the provider alone, where that is on this machine (``WEIR_OIDC_ISSUER``).
    """
    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    session.max_redirects = 0
    session.adapters.clear()
    issuer = urlsplit(settings.OIDC_ISSUER)
    for beginning in ("https://", f"{issuer.scheme}://{issuer.netloc}/"):
        session.mount(beginning, _Bounded())
    ask = session.request
    session.request = lambda *args, **options: ask(  # type: ignore[method-assign]
        *args, **{"timeout": settings.DELIVERY_S, **options})
    return session
