"""The hub: one builder for each topic and scope that somebody in this process watches.

A builder looks twice a second and wakes its watchers when there is a newer version. Nothing is queued for a watcher:
it takes the newest version when it is ready for one, so a slow client gets fewer and larger deltas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import redis
import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings

from dashboard import jobs
from dashboard.core.events import GROUP
from dashboard.live.protocol import build
from dashboard.live.versions import INTERVAL_S, Patch, Version, Versions
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound

log = structlog.get_logger(__name__)
RETRY_S = 2.0
GONE_S = 5.0  # what is not there is looked for less often


def versions() -> Versions:
    """The versions in the broker that the settings name."""
    return Versions(jobs.broker(settings.REDIS_URL))


@dataclass(eq=False)
class Builder:
    """What is newest of one topic for one scope: a version, or ``away`` (no broker), or ``gone``."""

    topic: str
    viewer: Viewer
    version: Version | None = None
    status: str = "starting"
    watchers: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task | None = None

    async def run(self) -> None:
        """Look, tell, sleep; until cancelled."""
        while True:
            before = (self.status, self.version)
            try:
                self.version = await database_sync_to_async(self._refresh, thread_sensitive=False)()
                self.status = "live"
            except NotFound:
                self.status = "gone"
            except redis.RedisError:
                self.status, self.version = "away", None
            except Exception:
                # A defect in one document must not end what every watcher of it waits for.
                log.exception("live_build_failed", topic=self.topic)
            if (self.status, self.version) != before:
                for watcher in self.watchers:
                    watcher.set()
            await asyncio.sleep(GONE_S if self.status == "gone" else INTERVAL_S)

    def _refresh(self) -> Version:
        return versions().refresh(
            self.topic, self.viewer.scope, lambda: build(self.viewer, self.topic), known=self.version)


class Hub:
    """Builders by topic and scope, and the connections to check when a user's access changes."""

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str], Builder] = {}
        self._checks: dict[Callable[[], None], int] = {}
        self._listener: asyncio.Task | None = None

    def watch(self, topic: str, viewer: Viewer, wake: asyncio.Event) -> Builder:
        """Begin to watch: the event is set whenever there is something newer."""
        key = (topic, viewer.scope)
        builder = self._builders.get(key)
        if builder is None:
            builder = self._builders[key] = Builder(topic=topic, viewer=viewer)
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

    def on_access_change(self, user_id: int, check: Callable[[], None]) -> None:
        """Have ``check`` called when this user's access changes."""
        self._checks[check] = user_id
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())

    def connections_of(self, user_id: int) -> int:
        """How many connections a user has with this process."""
        return sum(checked_user == user_id for checked_user in self._checks.values())

    def forget(self, check: Callable[[], None]) -> None:
        """No longer call ``check``; the last one ends the listening."""
        self._checks.pop(check, None)
        if not self._checks and self._listener is not None:
            self._listener.cancel()
            self._listener = None

    async def patches(self, builder: Builder, seq: int, *, until: int) -> list[Patch] | None:
        """The patches from a client's number to a version; None where the client must fetch anew."""
        def read() -> list[Patch] | None:
            return versions().patches_since(
                builder.topic, builder.viewer.scope, seq, until=until)
        try:
            return await asyncio.to_thread(read)
        except redis.RedisError:
            return None

    async def _listen(self) -> None:
        layer = get_channel_layer()
        while True:
            try:
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
                while True:
                    message = await layer.receive(channel)
                    for check in [c for c, user_id in self._checks.items() if user_id == message["user"]]:
                        check()
            except Exception as error:  # connections check on a schedule too, so this may try again at leisure
                log.warning("access_notices_unavailable", error=str(error))
                await asyncio.sleep(RETRY_S)
