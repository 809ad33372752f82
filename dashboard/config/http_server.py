"""The server's side of an HTTP connection: how many there are, and how long one may keep the server waiting.

uvicorn waits without end for the first bytes of a connection, for the rest of a header, and for a client that takes no
more of an answer. What waits for a body is ``bodies.py``.
"""

from __future__ import annotations

import asyncio

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scheduler.model.bounds import ANSWER_WAIT

AGAIN_S = 5
REFUSED_WITHIN_S = 1.0


class SiteProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which refuses connections beyond a number and ends those that keep it waiting."""

    _timer: asyncio.TimerHandle | None = None  # of the headers that are awaited

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        self._is_refused = len(self.connections) > settings.CONNECTIONS
        if self._is_refused:
            self._timer = self.loop.call_later(REFUSED_WITHIN_S, self._refuse)
        else:
            self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Read on; between two requests a deadline begins with the first byte. A live connection has no more requests:
        another protocol has its transport then."""
        if self.transport.is_closing():
            return
        if self._is_refused:  # only who has been read from reads the answer
            self._refuse()
            return
        super().data_received(data)
        is_between = self.transport.get_protocol() is self and (self.cycle is None or self.cycle.response_complete)
        if is_between and self._timer is None and self.parser is not None and not self.transport.is_closing():
            self._await_headers()

    def on_headers_complete(self) -> None:
        """The headers are there: what comes now is the application's to wait for."""
        self._forget_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._forget_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes no more: who goes on so for long is cut off, with what was to be sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(ANSWER_WAIT.most, self.transport.abort)

    def resume_writing(self) -> None:
        """It takes more."""
        self._taking.cancel()
        super().resume_writing()

    def _await_headers(self) -> None:
        self._timer = self.loop.call_later(
            settings.HEADER_WAIT_S, self._end, "408 Request Timeout",
            f"The headers were not there within {settings.HEADER_WAIT_S:g} s (WEIR_HEADER_WAIT_S).")

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        self._end("503 Service Unavailable", f"The site has all the {settings.CONNECTIONS} connections that it takes "
                  "(WEIR_CONNECTIONS). Try again soon.", f"retry-after: {AGAIN_S}\r\n")

    def _end(self, status: str, text: str, header: str = "") -> None:
        """Say why, and close; who does not take that is cut off soon."""
        self._forget_timer()
        if self.transport.is_closing():
            return  # whoever asked has gone first
        self.transport.write((
            f"HTTP/1.1 {status}\r\n{header}connection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(text)}\r\n\r\n{text}").encode("ascii"))
        self.transport.close()
        self.loop.call_later(AGAIN_S, self.transport.abort)
