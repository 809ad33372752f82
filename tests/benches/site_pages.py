"""Pages that stand open as browsers have them: the page, its live topic, and what its scripts ask for so often.

Both stand in a page's markup, and so does what a browser shows of it: of tabs one. A page whose topic changes in more
than moving figures is asked for anew, as ``static/js/live_page.js`` does.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from types import TracebackType
from typing import Any

from .live_clients import Clients, Page

# As static/js/live_page.js, alert_count.js and plots.js have them.
HISTORY_EVERY_S, ALERTS_EVERY_S, PLOTS_EVERY_S, REFRESH_AFTER_S = 5.0, 10.0, 5.0, 0.25
_TOPIC, _MOVING = re.compile(r'<body[^>]* data-live="([^"]+)"'), re.compile(r'<body data-moving="([^"]*)"')
_PANEL = re.compile(r'(?=<div class="tab-panel")')
_ASKED = (
    (re.compile(r'id="spark" data-history="([^"]+)"'), HISTORY_EVERY_S),
    (re.compile(r'data-alert-count="([^"]+)"'), ALERTS_EVERY_S),
    (re.compile(r'data-plots="([^"]+)"(?! data-still)'), PLOTS_EVERY_S),
)
# A page that stands open is asked for anew by htmx, which says so.
_WHOLE: Mapping[str, str] = {}
_PARTS: Mapping[str, str] = {"HX-Request": "true"}
_CHARTS, _POLLED = re.compile(r'data-charts="([^"]+)"(?: data-range="(\w+)")?'), re.compile(r'data-poll-ms="(\d+)"')


@dataclass(frozen=True, slots=True)
class Visit:
    """A page by its address, with the tab that shows behind a ``#``, and who has it open (a Cookie header)."""

    cookie: str
    address: str

    @property
    def path(self) -> str:
        """What the site is asked for."""
        return self.address.partition("#")[0]

    @property
    def tab(self) -> str:
        """The tab that shows, where it is not the first."""
        return self.address.partition("#")[2]


@dataclass(frozen=True, slots=True)
class _LivePage(Page):
    """A page with a live topic, and how it is asked for anew."""

    visit: Visit


class OpenPages:
    """Opens them all on the way in, and keeps them open until the way out.

    Parameters
    ----------
    port : int
        Of the site.
    visits : sequence of Visit
        What each shows, and to whom.
    """

    def __init__(self, port: int, visits: Sequence[Visit]) -> None:
        self._port, self.visits = port, visits
        self._clients: Clients | None = None
        self._asking: list[asyncio.Task] = []
        self._refreshing: dict[_LivePage, asyncio.Task] = {}
        self._moving: frozenset[str] = frozenset()
        self.requests = 0  # so far, without snapshots

    async def __aenter__(self) -> OpenPages:
        live = []
        for visit in self.visits:
            text = await asyncio.to_thread(self._get, visit, visit.path)
            for path, every_s in asked_by(text, visit):
                self._asking.append(asyncio.create_task(self._ask(visit, path, every_s)))
            if topic := _TOPIC.search(text):
                live.append(_LivePage(visit.cookie, html.unescape(topic[1]), visit))
            self._moving |= {name for names in _MOVING.findall(text) for name in names.split()}
        self._clients = Clients(self._port, live, on_delta=self._changed)
        await self._clients.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asking = [*self._asking, *self._refreshing.values()]
        for task in asking:
            task.cancel()
        failed = [
            result for result in await asyncio.gather(*asking, return_exceptions=True) if isinstance(result, Exception)]
        closed = await self._clients.close() if self._clients else 0
        if error is None and (failed or closed):
            why = self._clients.failed[:1] if self._clients else []
            raise RuntimeError(f"{closed} pages were closed: {why}; asking failed: {failed[:1]}")

    def _changed(self, page: _LivePage, delta: str) -> None:
        """Ask for the page anew soon, once for changes that come close together."""
        under_way = self._refreshing.get(page)
        is_under_way = under_way is not None and not under_way.done()
        if not is_under_way and not moves_only(json.loads(delta).get("patch") or {}, self._moving):
            self._refreshing[page] = asyncio.create_task(self._refresh(page.visit))

    async def _refresh(self, visit: Visit) -> None:
        await asyncio.sleep(REFRESH_AFTER_S)
        await asyncio.to_thread(self._get, visit, visit.path, _PARTS)

    async def _ask(self, visit: Visit, path: str, every_s: float) -> None:
        headers = _PARTS if path == visit.path else _WHOLE
        while True:
            await asyncio.to_thread(self._get, visit, path, headers)
            await asyncio.sleep(every_s)

    def _get(self, visit: Visit, path: str, headers: Mapping[str, str] = _WHOLE) -> str:
        self.requests += 1
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("GET", path, headers={**headers, "Cookie": visit.cookie})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {body[:200]!r}")
        return body.decode()


def asked_by(text: str, visit: Visit) -> Iterator[tuple[str, float]]:
    """What the scripts of a page ask for, and every how many seconds."""
    from dashboard.pages.ranges import DEFAULT, RANGES  # here: Django is set up by the command

    visible = _visible(text, visit.tab)
    for pattern, every_s in _ASKED:
        for path in pattern.findall(visible):
            yield html.unescape(path), every_s
    for path, name in _CHARTS.findall(visible):
        span = RANGES.get(name, DEFAULT)
        address = html.unescape(path)
        yield f"{address}{'&' if '?' in address else '?'}range={span.name}", span.every_s
    for ms in _POLLED.findall(visible):
        yield visit.path, int(ms) / 1000


def moves_only(patch: Mapping[str, Any], moving: frozenset[str]) -> bool:
    """Whether a JSON merge patch changes nothing but figures that move by themselves."""
    return all(
        name in moving or (isinstance(value, dict) and bool(value) and moves_only(value, moving))
        for name, value in patch.items())


def _visible(text: str, tab: str) -> str:
    before, *panels = _PANEL.split(text)
    return before + "".join(
        panel for panel in panels
        if (f'id="{tab}-panel"' in panel.partition(">")[0] if tab else "hidden" not in panel.partition(">")[0]))
