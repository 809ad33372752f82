"""The server's side of a WebSocket, where it ends: a client that does not read is not waited for.

Whoever does not read keeps the connection's buffers full, so that nothing can be sent to it, a closing frame neither;
and a transport with full buffers waits for them when it is closed. uvicorn closes, and no more than that: such a
connection would stay for as long as the client's machine answers.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from scheduler.model.bounds import LIVE_FRAMES

ENDS_WITHIN_S = 5.0
WINDOW_S = 10.0


class LiveProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which cuts off who has not taken the end of a connection after some seconds, and who sends
    frames without end that are no messages: each ping is answered, and each part kept, before anybody reads it."""

    _since_s, _frames_taken, _parts = 0.0, 0, 0

    def handle_ping(self) -> None:
        """Answer a ping, unless there are too many."""
        if self._takes_frame():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        """Take the answer to a ping, unless there are too many."""
        if self._takes_frame():
            super().handle_pong(event)

    def handle_cont(self, event: Frame) -> None:
        """Keep a part of a message, unless there are too many."""
        self._parts = 0 if event.fin else self._parts + 1
        if self._takes_frame():
            super().handle_cont(event)

    def _takes_frame(self) -> bool:
        """True if one more frame may be; who sends too many is cut off."""
        now_s = self.loop.time()
        if now_s - self._since_s > WINDOW_S:
            self._since_s, self._frames_taken = now_s, 0
        self._frames_taken += 1
        is_within = max(self._frames_taken, self._parts) <= LIVE_FRAMES.most
        if not is_within:
            self.transport.abort()
        return is_within

    async def run_asgi(self) -> None:
        """Serve the connection; once that is over, its buffers are given up soon."""
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(ENDS_WITHIN_S, self.transport.abort)

    def keepalive_timeout(self) -> None:
        """A ping that was not answered: who is gone, or does not read, takes nothing any more."""
        super().keepalive_timeout()
        self.transport.abort()
