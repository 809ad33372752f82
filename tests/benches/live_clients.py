"""Clients of a live site for `./weir bench live`: a snapshot over HTTP, then deltas, as a page has it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import quote

import websockets

AT_ONCE = 16  # pages that open at the same time
_CHANGE = re.compile(r"change (\d+)\b")


@dataclass(frozen=True, slots=True)
class Page:
    """What one client watches, and as whom (its Cookie header)."""

    cookie: str
    topic: str


class Clients:
    """All pages; what they hear, and how long that and their snapshots took. Each difference that comes is given to
    ``on_delta``, as text."""

    def __init__(
        self, port: int, pages: Sequence[Page], *, on_delta: Callable[[Page, str], None] | None = None
    ) -> None:
        self._port = port
        self._pages = pages
        self._on_delta = on_delta
        self._began_s: dict[int, float] = {}
        self._readers: list[asyncio.Task] = []
        self._idle: list[websockets.ClientConnection] = []
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self.heard_s: list[float] = []
        self.snapshots_s: list[float] = []
        self.received_bytes = 0
        self.failed: list[BaseException] = []  # why pages were closed before

    def began(self, number: int) -> None:
        """A change is made now."""
        self._began_s[number] = time.monotonic()

    async def connect(self) -> None:
        """Open all pages, a few at once."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def open_one(page: Page) -> None:
            async with gate:
                seq = await self._snapshot(page)
                socket = await self._opened(page, max_queue=16)
                await socket.send(json.dumps({"type": "subscribe", "topic": page.topic, "seq": seq}))
            self._readers.append(asyncio.create_task(self._read(socket, page)))

        await asyncio.gather(*(open_one(page) for page in self._pages))

    async def connect_without_reading(self, page: Page, count: int) -> list[int]:
        """Subscribe with so many connections that read nothing of what comes then; their ports on this side."""
        for _ in range(count):
            seq = await self._snapshot(page)
            socket = await self._opened(page, max_queue=1)  # with one message it stops to read, pings too
            await socket.send(json.dumps({"type": "subscribe", "topic": page.topic, "seq": seq}))
            self._idle.append(socket)
        return [socket.local_address[1] for socket in self._idle]

    async def _opened(self, page: Page, *, max_queue: int) -> websockets.ClientConnection:
        return await websockets.connect(
            f"ws://127.0.0.1:{self._port}/ws/live", compression=None, max_size=None, open_timeout=60,
            max_queue=max_queue, origin=f"http://127.0.0.1:{self._port}", additional_headers={"Cookie": page.cookie},
            ping_interval=None)

    async def ask_for_snapshots(self, per_s: float) -> None:
        """Open a page so often, until cancelled; nobody waits for the one before."""
        requests = set()
        for number in range(10**6):
            requests.add(asyncio.create_task(self._snapshot(self._pages[number % len(self._pages)])))
            await asyncio.sleep(1 / per_s)

    async def close(self) -> int:
        """Close all; how many the site had closed before."""
        closed = sum(reader.done() for reader in self._readers)
        self.failed = [
            error for reader in self._readers if reader.done() and (error := reader.exception()) is not None]
        for reader in self._readers:
            reader.cancel()
        for socket in self._idle:
            socket.transport.abort()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self._threads.shutdown()
        return closed

    async def _read(self, socket: websockets.ClientConnection, page: Page) -> None:
        """Note what comes; where the site says that the client is too far behind, fetch and subscribe anew."""
        last = 0
        try:
            while True:
                text = await socket.recv()
                at_s = time.monotonic()
                self.received_bytes += len(text)
                change = _CHANGE.search(text)
                if change and int(change[1]) > last:
                    last = int(change[1])
                    self.heard_s.append(at_s - self._began_s[last])
                if self._on_delta is not None and text.startswith('{"type":"delta"'):
                    self._on_delta(page, text)
                if text.startswith('{"type":"refetch"'):
                    seq = await self._snapshot(page)
                    await socket.send(json.dumps({"type": "subscribe", "topic": page.topic, "seq": seq}))
        finally:
            socket.transport.abort()

    async def _snapshot(self, page: Page) -> int:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._snapshot_now, page)

    def _snapshot_now(self, page: Page) -> int:
        began_s = time.monotonic()
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("GET", f"/live/snapshot?topic={quote(page.topic)}", headers={"Cookie": page.cookie})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"The site answered {answer.status}: {body[:200]!r}")
        self.snapshots_s.append(time.monotonic() - began_s)
        return json.loads(body)["seq"]
