"""The WebSocket ``/ws/live``: one connection of one session, watching a few topics; see ``live_protocol.py``."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings
from django.db import DatabaseError

from dashboard.live.hub import Builder, Hub, delta, written
from dashboard.live.live_protocol import State, is_topic
from dashboard.teams.permissions import NOBODY, Viewer
from scheduler.model.bounds import LIVE_MESSAGE, LIVE_MESSAGES, LIVE_TOPICS

log = structlog.get_logger(__name__)

MOST_CATCH_UP = 4
RATE_WINDOW_S = 10.0
SEND_WITHIN_S = 30.0
CLOSE_WITHIN_S = 1.0
CLOSE_NOT_LOGGED_IN = 4401
CLOSE_TOO_SLOW = 4408
CLOSE_TOO_MANY = 4429

Send = Callable[[dict[str, Any]], Awaitable[None]]
_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub_of_loop() -> Hub:
    """The hub of the running event loop: one a server process."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


@dataclass(eq=False)
class WatchedTopic:
    """One topic of one connection: the builder, and what the client was last sent."""

    builder: Builder
    seq: int
    state: State | None = None  # None until the client has caught up from its snapshot
    told_status: str = ""


async def live(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
    """The ASGI application of one connection."""
    session_key = scope["cookies"].get(settings.SESSION_COOKIE_NAME)
    hub = hub_of_loop()
    viewer = await hub.sessions.viewer(session_key)
    if (await receive())["type"] != "websocket.connect":
        return
    if viewer.user_id == NOBODY.user_id:
        await send({"type": "websocket.close", "code": CLOSE_NOT_LOGGED_IN})
        return
    await send({"type": "websocket.accept"})
    if not hub.has_room_for(viewer):
        await send({"type": "websocket.close", "code": CLOSE_TOO_MANY})
        return
    await Connection(session_key, viewer, hub, send).run(receive)


class Connection:
    """A connection, with two tasks: one reads the client's messages, one writes the newest state."""

    def __init__(self, session_key: str, viewer: Viewer, hub: Hub, send: Send) -> None:
        self._session_key = session_key
        self._viewer = viewer
        self._hub = hub
        self._send = send
        self._watched: dict[str, WatchedTopic] = {}
        self._wake = asyncio.Event()
        self._check_now = False

    async def run(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Serve until either side is done, and leave nothing behind."""
        self._hub.on_access_change(self._viewer, self._ask_for_check)
        tasks = {asyncio.create_task(self._read(receive)), asyncio.create_task(self._write())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._hub.forget(self._ask_for_check)
            for topic in list(self._watched):
                self._unwatch(topic)

    def _ask_for_check(self) -> None:
        self._check_now = True
        self._wake.set()

    async def _read(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        times_s: deque[float] = deque(maxlen=LIVE_MESSAGES.most)
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            now_s = asyncio.get_running_loop().time()
            if len(times_s) == LIVE_MESSAGES.most and now_s - times_s[0] < RATE_WINDOW_S:
                await self._end(CLOSE_TOO_MANY)
                return
            times_s.append(now_s)
            answer = self._take(event.get("text") or "")
            if answer is not None:
                await self._tell(written(answer))

    def _take(self, text: str) -> dict[str, Any] | None:
        """Do what a message asks; the answer where it cannot be done."""
        try:
            message = json.loads(text) if len(text) <= LIVE_MESSAGE.most else None
            kind, topic = message["type"], message["topic"]
            seq = int(message.get("seq", 0))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            return _error("A message is JSON with type, topic and seq.")
        if not isinstance(topic, str) or kind not in ("subscribe", "unsubscribe"):
            return _error("Subscribe to a topic, or unsubscribe from one.")
        self._unwatch(topic)
        if kind == "subscribe":
            if not is_topic(topic):
                return {"type": "gone", "topic": topic}
            if len(self._watched) >= LIVE_TOPICS.most:
                return _error(f"At most {LIVE_TOPICS.most} topics on one connection.")
            self._watched[topic] = WatchedTopic(self._hub.watch(topic, self._viewer, self._wake), seq)
            self._wake.set()
        return None

    def _unwatch(self, topic: str) -> None:
        watched = self._watched.pop(topic, None)
        # Two topics of one connection share the event, but never a builder.
        if watched is not None:
            self._hub.unwatch(watched.builder, self._wake)

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._check_now:
                self._check_now = False
                if not await self._still_allowed():
                    await self._end(CLOSE_NOT_LOGGED_IN)
                    return
            for topic, watched in list(self._watched.items()):
                if self._check_now:  # access has changed while the client took its time with a topic before
                    break
                if not await self._bring_up_to_date(topic, watched):
                    await self._end(CLOSE_TOO_SLOW)
                    return

    async def _still_allowed(self) -> bool:
        """Ask anew who this is; topics go on under the viewer's scope of now."""
        try:
            viewer = await self._hub.sessions.viewer(self._session_key)
        except DatabaseError as error:  # nor can anything new be built until it is back
            log.warning("session_not_checked", error=str(error))
            return True
        if viewer.user_id != self._viewer.user_id:
            return False
        if viewer.scope != self._viewer.scope:
            self._viewer = viewer
            for topic in list(self._watched):
                self._unwatch(topic)
                self._watched[topic] = WatchedTopic(self._hub.watch(topic, viewer, self._wake), seq=0)
        return True

    async def _bring_up_to_date(self, topic: str, watched: WatchedTopic) -> bool:
        """Send what the client lacks of one topic; False where it does not take it in time."""
        status, version = watched.builder.status, watched.builder.version
        if status == "live" and version is not None:
            watched.told_status = ""
            if watched.state is None:
                return await self._catch_up(topic, watched)
            if version.seq == watched.seq:
                return True
            message = watched.builder.delta_from(watched.seq, watched.state)
            watched.seq, watched.state = version.seq, version.state
            return await self._tell(message)
        if status in {"away", "gone"} and watched.told_status != status:
            watched.told_status, watched.state, watched.seq = status, None, 0
            return await self._tell(written({"type": status, "topic": topic}))
        return True

    async def _catch_up(self, topic: str, watched: WatchedTopic) -> bool:
        """Lead from the client's snapshot to the newest version, patch by patch; or it fetches anew."""
        version = watched.builder.version
        state = watched.builder.state_at(watched.seq)
        if state is not None:
            watched.state = state
            return await self._bring_up_to_date(topic, watched)
        patches = await self._hub.patches(watched.builder, watched.seq, until=version.seq)
        if patches is None or len(patches) > MOST_CATCH_UP:
            self._unwatch_if_same(topic, watched)
            return await self._tell(written({"type": "refetch", "topic": topic}))
        watched.seq, watched.state = version.seq, version.state
        for patch in patches:
            if not await self._tell(written(delta(topic, patch))):
                return False
        self._wake.set()  # the builder may have gone on meanwhile
        return True

    def _unwatch_if_same(self, topic: str, watched: WatchedTopic) -> None:
        if self._watched.get(topic) is watched:
            self._unwatch(topic)

    async def _end(self, code: int) -> None:
        """Say why this ends, to a client that takes it; the server waits for no other."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._send({"type": "websocket.close", "code": code})

    async def _tell(self, text: str) -> bool:
        """Send one message; False where the client does not take it in time."""
        try:
            async with asyncio.timeout(SEND_WITHIN_S):
                await self._send({"type": "websocket.send", "text": text})
        except TimeoutError:
            return False
        return True


def _error(message: str) -> dict[str, Any]:
    return {"type": "error", "message": message}
