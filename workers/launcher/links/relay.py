"""A relay in front of the broker: passes bytes on, each direction as late as its shaper says.

All connections of a node share the two directions, as they would share a wire.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

from .shaping import Shaper

PIECE = 1 << 16
UNDER_WAY = 256  # pieces of a connection and direction at once: 16 MiB, more than any link here holds


class Relay:
    """Listens, and joins each connection to the broker; on a thread of its own, from ``start`` to ``stop``."""

    def __init__(self, broker: tuple[str, int], *, onward: Shaper, back: Shaper) -> None:
        self._broker = broker
        self._onward, self._back = onward, back
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    def start(self, host: str) -> int:
        """Listen at an address of this machine; the port.

        Raises
        ------
        OSError
            It cannot be listened at.
        """
        self._thread.start()

        async def listen() -> int:
            self._server = await asyncio.start_server(self._join, host, 0)
            return self._server.sockets[0].getsockname()[1]

        return self._result_of(asyncio.run_coroutine_threadsafe(listen(), self._loop))

    def stop(self) -> None:
        """End all connections, and the thread."""
        async def end() -> None:
            if self._server is not None:
                self._server.close()
            connections = list(self._connections)
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

        self._result_of(asyncio.run_coroutine_threadsafe(end(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    def _result_of(future: Future) -> int:
        return future.result(timeout=30)

    async def _join(self, node: asyncio.StreamReader, to_node: asyncio.StreamWriter) -> None:
        this_task = asyncio.current_task()
        self._connections.add(this_task)
        writers = [to_node]
        try:
            broker, to_broker = await asyncio.open_connection(*self._broker)
            writers.append(to_broker)
            directions = [asyncio.ensure_future(self._carry(*way)) for way in (
                (node, to_broker, self._onward), (broker, to_node, self._back))]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in directions:
                    way.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
        except (OSError, asyncio.CancelledError):  # the broker is away, or this relay ends: so does the connection
            pass
        finally:
            self._connections.discard(this_task)
            for writer in writers:
                with suppress(OSError):
                    writer.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, shaper: Shaper) -> None:
        """Pass on what comes until one end closes; what was sent before that still arrives."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(UNDER_WAY)

        async def send() -> None:
            while True:
                due_s, piece = await under_way.get()
                await asyncio.sleep(max(0.0, due_s - self._loop.time()))
                if not piece:
                    return
                sink.write(piece)
                await sink.drain()

        sending = asyncio.ensure_future(send())
        try:
            while piece := await source.read(PIECE):
                await under_way.put((shaper.arrives_s(self._loop.time(), len(piece)), piece))
            await under_way.put((shaper.arrives_s(self._loop.time(), 0), b""))
            await sending
        finally:
            sending.cancel()
