"""Pages that stand open as browsers have them: the page, its live topic, and what its scripts ask for so often."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Sequence
from http.client import HTTPConnection
from types import TracebackType

from .live_clients import Clients, Page

HISTORY_EVERY_S, ALERTS_EVERY_S = 5.0, 10.0  # as static/js/live_page.js and alert_count.js have them
_ASKED = (
    (re.compile(r'id="spark" data-history="([^"]+)"'), HISTORY_EVERY_S),
    (re.compile(r'data-alert-count="([^"]+)"'), ALERTS_EVERY_S),
)


class OpenPages:
    """Opens them all on the way in, and keeps them open until the way out.

    Parameters
    ----------
    port : int
        Of the site.
    pages : sequence of Page
        What each shows, and to whom.
    """

    def __init__(self, port: int, pages: Sequence[Page]) -> None:
        self._port, self._pages = port, pages
        self._clients = Clients(port, pages)
        self._asking: list[asyncio.Task] = []

    async def __aenter__(self) -> OpenPages:
        for page in self._pages:
            text = await asyncio.to_thread(self._get, page, _address(page.topic))
            for pattern, every_s in _ASKED:
                for path in pattern.findall(text):
                    self._asking.append(asyncio.create_task(self._ask(page, html.unescape(path), every_s)))
        await self._clients.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._asking:
            task.cancel()
        failed = [
            result for result in await asyncio.gather(*self._asking, return_exceptions=True)
            if isinstance(result, Exception)]
        closed = await self._clients.close()
        if error is None and (failed or closed):
            raise RuntimeError(f"{closed} pages were closed by the site; asking failed: {failed[:1]}")

    @property
    def received_bytes(self) -> int:
        """How much came over the WebSockets."""
        return self._clients.received_bytes

    async def _ask(self, page: Page, path: str, every_s: float) -> None:
        while True:
            await asyncio.to_thread(self._get, page, path)
            await asyncio.sleep(every_s)

    def _get(self, page: Page, path: str) -> str:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("GET", path, headers={"Cookie": page.cookie})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {body[:200]!r}")
        return body.decode()


def _address(topic: str) -> str:
    kind, _, subject = topic.partition(":")
    return f"/dataflows/{subject}/" if kind == "dataflow" else "/"
