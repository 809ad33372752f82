"""The hub: one builder for each topic and scope that somebody in this process watches.

A builder looks twice a second and wakes its watchers when there is a newer version. Nothing is queued for a watcher:
it takes the newest version when it is ready for one, so a slow client gets fewer and larger deltas. What leads to the
newest version is made and written once for all who have the same one before it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import redis
import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings

from dashboard import jobs
from dashboard.core.access_events import GROUP
from dashboard.core.database import keep_connection
from dashboard.live.live_protocol import State, build, difference
from dashboard.live.live_sessions import Sessions
from dashboard.live.state_versions import INTERVAL_S, LiveView, Patch, Version, Versions
from dashboard.operations.live_view.estate_view import Look, SharedViews, view_for
from dashboard.teams.permissions import Viewer
from dashboard.teams.team_limits import CONNECTIONS
from scheduler.model.errors import NotFound

log = structlog.get_logger(__name__)
RETRY_S = 2.0
GONE_S = 5.0  # what is not there is looked for less often
CHECK_EVERY_S = 10.0  # who a connection belongs to is asked anew
TICK_S = 1.0
KEPT_VERSIONS = 6  # of a topic in this process, for clients that come with a snapshot of some seconds ago
BUILDERS_AT_ONCE = 4


def versions() -> Versions:
    """The versions in the broker that the settings name."""
    return Versions(jobs.broker(settings.REDIS_URL))


@dataclass(eq=False)
class Builder:
    """The newest state of one topic for one scope: a version, or ``away`` (no broker), or ``gone``."""

    topic: str
    viewer: Viewer
    version: Version | None = None
    status: str = "starting"
    watchers: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task | None = None
    threads: ThreadPoolExecutor | None = None
    look: Look = view_for
    _recent: deque[Version] = field(default_factory=lambda: deque(maxlen=KEPT_VERSIONS))
    _written: dict[tuple[int, int], str] = field(default_factory=dict)

    async def run(self) -> None:
        """Look, tell, sleep; until cancelled."""
        refresh = database_sync_to_async(self._refresh, thread_sensitive=False, executor=self.threads)
        while True:
            before = (self.status, self.version)
            try:
                self.version = await refresh()
                self.status = "live"
            except NotFound:
                self.status = "gone"
            except redis.RedisError:
                self.status, self.version = "away", None
            except Exception:
                # A defect in one document must not end what every watcher of it waits for.
                log.exception("live_build_failed", topic=self.topic)
            if (self.status, self.version) != before:
                if self.version is not None:
                    self._recent.append(self.version)
                for watcher in self.watchers:
                    watcher.set()
            await asyncio.sleep(GONE_S if self.status == "gone" else _until_next_look_s())

    def state_at(self, seq: int) -> State | None:
        """The state of a number that this process has had lately, or None."""
        return next((version.state for version in self._recent if version.seq == seq), None)

    def delta_from(self, seq: int, state: State) -> str:
        """The message that leads from a version to the newest one, written once for all who have that version."""
        newest = self.version
        key = (seq, newest.seq)
        if key not in self._written:
            if any(until != newest.seq for _, until in self._written):
                self._written.clear()
            patch = newest.patch
            if patch is None or patch.before != seq:
                patch = Patch(before=seq, seq=newest.seq, patch=difference(state, newest.state))
            self._written[key] = written(delta(self.topic, patch))
        return self._written[key]

    def _refresh(self) -> Version:
        keep_connection()
        view = LiveView(self.topic, self.viewer.scope, lambda: build(self.viewer, self.topic, look=self.look))
        return versions().refresh(view, last_version=self.version)


def _until_next_look_s() -> float:
    """All builders of a process look at the same moments: then one reading of the broker does for all of them."""
    return INTERVAL_S - asyncio.get_running_loop().time() % INTERVAL_S


def delta(topic: str, patch: Patch) -> State:
    """The message that carries a patch."""
    return {"type": "delta", "topic": topic, "from": patch.before, "seq": patch.seq, "patch": patch.patch}


def written(message: State) -> str:
    """A message as it travels."""
    return json.dumps(message, separators=(",", ":"))


@dataclass(eq=False)
class _Check:
    """A connection of a user who is in these teams, and when it is next to ask who it belongs to."""

    user_id: int
    team_ids: tuple[int, ...]
    due_s: float


class Hub:
    """Builders by topic and scope, and the connections to check when a user's access changes."""

    def __init__(self) -> None:
        self.sessions = Sessions()
        self._builders: dict[tuple[str, str], Builder] = {}
        self._checks: dict[Callable[[], None], _Check] = {}
        self._background: list[asyncio.Task] = []
        self._threads = ThreadPoolExecutor(BUILDERS_AT_ONCE, "live-builder")
        self._views = SharedViews()

    def watch(self, topic: str, viewer: Viewer, wake: asyncio.Event) -> Builder:
        """Begin to watch: the event is set whenever there is something newer."""
        key = (topic, viewer.scope)
        builder = self._builders.get(key)
        if builder is None:
            builder = self._builders[key] = Builder(
                topic=topic, viewer=viewer, threads=self._threads, look=self._views.view_for)
            builder.task = asyncio.create_task(builder.run())
        builder.watchers.add(wake)
        return builder

    def unwatch(self, builder: Builder, wake: asyncio.Event) -> None:
        """End watching; the last watcher stops the builder."""
        builder.watchers.discard(wake)
        key = (builder.topic, builder.viewer.scope)
        if not builder.watchers and self._builders.get(key) is builder:
            del self._builders[key]
            builder.task.cancel()

    def on_access_change(self, viewer: Viewer, check: Callable[[], None]) -> None:
        """Have ``check`` called when this user's access changes, and every ten seconds."""
        self._checks[check] = _Check(viewer.user_id, viewer.team_ids, asyncio.get_running_loop().time() + CHECK_EVERY_S)
        if not self._background:
            self._background = [asyncio.create_task(self._listen()), asyncio.create_task(self._tick())]

    def has_room_for(self, viewer: Viewer) -> bool:
        """True if one more connection is within what the user, and one of the user's teams, may have here."""
        of_user = sum(check.user_id == viewer.user_id for check in self._checks.values())
        of_teams = Counter(team_id for check in self._checks.values() for team_id in check.team_ids)
        return of_user < settings.LIVE_CONNECTIONS and (
            not viewer.team_ids or min(of_teams[team_id] for team_id in viewer.team_ids) < CONNECTIONS.most)

    def forget(self, check: Callable[[], None]) -> None:
        """No longer call ``check``; the last one ends the listening."""
        self._checks.pop(check, None)
        if not self._checks:
            for task in self._background:
                task.cancel()
            self._background = []

    async def patches(self, builder: Builder, seq: int, *, until: int) -> list[Patch] | None:
        """The patches from a client's number to a version; None where the client must fetch anew."""
        def read() -> list[Patch] | None:
            return versions().patches_since(
                builder.topic, builder.viewer.scope, seq, until=until)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except redis.RedisError:
            return None

    async def _tick(self) -> None:
        """Let connections ask who they belong to, those that are due together: one look-up answers them."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(TICK_S, CHECK_EVERY_S / 2))
            now_s = loop.time()
            for ask, check in list(self._checks.items()):
                if check.due_s <= now_s:
                    check.due_s = now_s + CHECK_EVERY_S
                    ask()

    async def _listen(self) -> None:
        layer = get_channel_layer()
        while True:
            try:
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
                while True:
                    message = await layer.receive(channel)
                    for ask in [ask for ask, check in self._checks.items() if check.user_id == message["user"]]:
                        ask()
            except Exception as error:  # connections check on a schedule too, so this may try again at leisure
                log.warning("access_notices_unavailable", error=str(error))
                await asyncio.sleep(RETRY_S)
