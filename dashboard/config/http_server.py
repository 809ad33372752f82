"""The server's side of an HTTP connection: how many there are, how long one may keep the server waiting, and with how
many bytes of headers.

uvicorn waits without end for the first bytes of a connection, for the rest of a header, and for a client that takes no
more of an answer. Of headers and trailers it keeps all that comes, and copies it with each piece. What counts bodies,
and waits for them, is ``bodies.py``.
"""

from __future__ import annotations

import asyncio

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scheduler.model.bounds import ANSWER_WAIT, REQUEST_HEADERS

AGAIN_S = 5
REFUSED_WITHIN_S = 1.0


class SiteProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which refuses connections beyond a number and ends those that keep it waiting or send headers
    without end."""

    _timer: asyncio.TimerHandle | None = None  # of the headers that are awaited
    _is_over = False
    _gets_on = False  # whether the bytes that are read complete headers or a request, or are of a body
    _header_bytes = 0  # that came since it last got on: of headers, trailers or the frame of a body

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
        if self._is_over or self.transport.is_closing():
            return
        if self._is_refused:  # only who has been read from reads the answer
            self._refuse()
            return
        while data:
            room = REQUEST_HEADERS.most - self._header_bytes
            if not room:
                self._refuse_headers()
                return
            piece, data, self._gets_on = data[:room], data[room:], False
            super().data_received(piece)
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            self._header_bytes = 0 if self._gets_on else self._header_bytes + len(piece)
        is_between = self.cycle is None or self.cycle.response_complete
        if is_between and self._timer is None and self.parser is not None:
            self._await_headers()

    def on_headers_complete(self) -> None:
        """The headers are there: what comes now is the application's to wait for."""
        self._forget_timer()
        self._gets_on = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body: the application counts it."""
        self._gets_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there, with its trailers: the next one is counted anew."""
        self._gets_on = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all waits."""
        self._forget_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes no more: who goes on so for long is cut off, with what was to be sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(ANSWER_WAIT.most, self.transport.abort)

    def resume_writing(self) -> None:
        """Let writing go on."""
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

    def _refuse_headers(self) -> None:
        """Say so where no answer is under way; else the connection ends as it is."""
        if self.cycle is not None and not self.cycle.response_complete:  # these are trailers, or of the next request
            if self.pipeline or self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._end("431 Request Header Fields Too Large",
                  f"The request's first line and headers, or its trailers, are over {REQUEST_HEADERS.most >> 10} KiB. "
                  "Send fewer cookies, or a shorter address.", reads_s=REFUSED_WITHIN_S)

    def _end(self, status: str, text: str, header: str = "", *, reads_s: float = 0.0) -> None:
        """Say why, and close; who does not take that is cut off soon.

        Parameters
        ----------
        reads_s : float
            For how long what still comes is read and thrown away: who sends all first reads the answer then.
        """
        self._forget_timer()
        self._is_over = True
        if self.transport.is_closing():
            return  # whoever asked has gone first
        self.transport.write((
            f"HTTP/1.1 {status}\r\n{header}connection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(text)}\r\n\r\n{text}").encode("ascii"))
        if reads_s:
            self.loop.call_later(reads_s, self.transport.close)
        else:
            self.transport.close()
        self.loop.call_later(AGAIN_S, self.transport.abort)
