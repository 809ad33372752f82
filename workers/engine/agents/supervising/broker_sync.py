"""A node agent's two-way mail with the broker: desired state comes in, reports go out. The broker may be away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import redis

from scheduler.contracts.desired import DesiredState
from workers import broker_client
from workers.engine import broker_room, desired_publishing
from workers.engine.channels import keys
from workers.engine.channels.channel_config import EVENTS_KEPT
from workers.engine.observed import REPORT_LIVES_S
from workers.engine.worker_settings import Settings

from ..agent_logs import logger
from ..node_files.node_store import NodeStore
from .lease import Lease, LeaseState

RETRY_S = 1.0  # after the broker was away, or something else went wrong
TELL_S = 3.0  # how often who asked hears how the lease stands, though it stands as before
TIMEOUT_S = 2.0


def connect(redis_url: str) -> redis.Redis:
    """A client that gives up soon, so that nobody waits for a broker that hangs."""
    return broker_client.connect(redis_url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)


class DesiredStateWatcher(threading.Thread):
    """Keeps the local store up to date: at once when a push tells of a change, and by looking where it got lost.

    Parameters
    ----------
    on_coming : callable, optional
        Called with what is desired before it is kept, so before any slot sees it.
    cycle_s : float
        Seconds between two looks without a push: the supervisor cycle, T_S of paper [4], section 3.4.
    """

    def __init__(
        self, broker: redis.Redis, store: NodeStore, *, on_change: Callable[[], None], cycle_s: float,
        on_coming: Callable[[DesiredState], None] = lambda _: None,
    ) -> None:
        super().__init__(name="watcher", daemon=True)
        self._broker = broker
        self._store = store
        self._on_change, self._on_coming = on_change, on_coming
        self._document: DesiredState | None = None
        self._cycle_s = cycle_s
        self._stopped = threading.Event()
        self._log = logger()
        self._not_taken = ""

    def stop(self) -> None:
        """End the thread at its next turn."""
        self._stopped.set()

    def run(self) -> None:
        away = False
        while not self._stopped.is_set():
            try:
                with self._broker.pubsub(ignore_subscribe_messages=True) as pushes:
                    pushes.subscribe(keys.PUSH)
                    away = self._announce(away, now_away=False)
                    self._receive(pushes)
            except redis.RedisError as error:
                away = self._announce(away, now_away=True, error=str(error))
                self._stopped.wait(RETRY_S)
            except Exception as error:  # a full disk, say: the next look may go well, and nobody else looks
                self._say_not_taken(error)
                self._stopped.wait(RETRY_S)

    def _receive(self, pushes: redis.client.PubSub) -> None:
        while not self._stopped.is_set():
            document = desired_publishing.read(self._broker, self._store.node)
            if document is not None and document != self._document:
                self._on_coming(document)
                self._document = document
            # After a failure it may be kept already, and nobody told of it.
            if document is not None and (self._store.write_desired(document) or self._not_taken):
                self._on_change()
                self._log.info("desired state", version=document.version)
            self._not_taken = ""
            deadline = time.monotonic() + self._cycle_s
            while (left_s := deadline - time.monotonic()) > 0 and not self._stopped.is_set():
                message = pushes.get_message(timeout=left_s)
                if message is not None and message["data"] == self._store.node.encode():
                    break

    def _say_not_taken(self, error: Exception) -> None:
        """Log why what is desired was not taken; once for as long as it stays the same."""
        if (reason := repr(error)) != self._not_taken:
            self._not_taken = reason
            self._log.error("desired state not taken", exc_info=error)

    def _announce(self, away: bool, *, now_away: bool, error: str = "") -> bool:
        if now_away and not away:
            self._log.warning("broker is away; what runs goes on", error=error)
        elif away and not now_away:
            self._log.info("broker is back")
        return now_away


class ReportPublisher(threading.Thread):
    """Sends reports and events, newest first in importance, and keeps the lease."""

    def __init__(
        self, broker: redis.Redis, settings: Settings, lease: Lease, *, on_lease_state: Callable[[LeaseState], None]
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._broker = broker
        self._node, self._heartbeat_s = settings.node, settings.heartbeat_s
        self._lease = lease
        self._on_lease_state = on_lease_state
        self._report: Mapping[str, Any] | None = None
        self._events: list[Mapping[str, Any]] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._renew_at = self._tell_at = 0.0  # monotonic seconds
        self._lease_state: LeaseState | None = None  # how the lease stood by what was said last

    def stop(self) -> None:
        """End the thread at its next turn."""
        self._stopped.set()
        self._wake.set()

    def send_report(self, report: Mapping[str, Any]) -> None:
        """Publish a report in place of any that has not gone out yet."""
        with self._lock:
            self._report = report
        self._wake.set()

    def send_event(self, kind: str, *, at_ms: int, **facts: object) -> None:
        """Publish a notable event; the last hundred wait for a broker that is away."""
        with self._lock:
            self._events.append({"kind": kind, "node": self._node, "at_ms": at_ms, **facts})
            del self._events[:-100]
        self._wake.set()

    def run(self) -> None:
        failure = ""
        while not self._stopped.is_set():
            self._wake.wait(max(0.0, self._renew_at - time.monotonic()))
            self._wake.clear()
            try:
                self._turn()
                failure = ""
            except Exception as error:  # a full disk, say: nobody else renews the lease
                if failure != (failure := repr(error)):
                    logger().error("not all was told", exc_info=error)

    def _turn(self) -> None:
        try:
            if (now_s := time.monotonic()) >= self._renew_at:
                self._renew_at = now_s + self._heartbeat_s
                state = self._lease.renew()
                if is_due := now_s >= self._tell_at:
                    self._keep_room()
                if is_due or state is not self._lease_state:
                    self._lease_state, self._tell_at = state, now_s + TELL_S
                    self._on_lease_state(state)
        finally:
            self._flush()

    def _keep_room(self) -> None:
        """Let the largest channels wait where the broker is well used, all sources where it is nearly full; once, say
        which, and what holds most."""
        with suppress(redis.RedisError):  # it is away, or says nothing of its memory
            if (memory := broker_room.keep_room(self._broker)) is not None:
                logger().warning(
                    "the broker is nearly full: sources wait", held_mb=memory.held >> 20, most_mb=memory.most >> 20,
                    largest_kb={name: size >> 10 for name, size in broker_room.largest(self._broker).items()})
            if channels := broker_room.bound_largest(self._broker):  # behind it, for a full broker refuses it
                logger().warning("channels hold much of the broker: their writers wait", channels=channels[:5])

    def _flush(self) -> None:
        with self._lock:
            report, self._report = self._report, None
            events, self._events = self._events, []
        pipeline = self._broker.pipeline(transaction=False)
        if report is not None:
            broker_room.set_even_where_full(
                pipeline, keys.observed(self._node), json.dumps(report), ex=REPORT_LIVES_S)
        for event in events:
            fields = {name: json.dumps(value) for name, value in event.items()}
            pipeline.xadd(keys.EVENTS, fields, maxlen=EVENTS_KEPT, approximate=True)
        try:
            pipeline.execute()
        except redis.RedisError:
            with self._lock:
                self._events = (events + self._events)[-100:]
