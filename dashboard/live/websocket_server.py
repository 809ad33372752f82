"""The server's side of a WebSocket, where it ends: a client that does not read is not waited for.

Whoever does not read keeps the connection's buffers full, so that nothing can be sent to it, a closing frame neither;
and a transport with full buffers waits for them when it is closed. uvicorn closes, and no more than that: such a
connection would stay for as long as the client's machine answers.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

ENDS_WITHIN_S = 5.0


class LiveProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which cuts off who has not taken the end of a connection after some seconds."""

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
