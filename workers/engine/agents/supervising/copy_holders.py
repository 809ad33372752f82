"""Holders: which other nodes are to have the state of a node's queries, and whose state this one has: the agent's side.

It needs the broker alone, so copies go on while the site is away. Which nodes these are is decided by
``scheduler/elasticity/query_copies.py``; slots send and take (``state_copies.py``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import redis

from scheduler.contracts.desired import DesiredState
from scheduler.contracts.reports import RUNNING, STOPPED
from scheduler.elasticity.copied_queries import why_not_copied
from scheduler.elasticity.query_copies import CopiedQuery, HoldingNode, choose_holders
from scheduler.model.task_types import TaskTypes
from workers.engine import observed
from workers.engine.channels import keys
from workers.engine.channels.channel_info import texts
from workers.engine.lost_nodes import RENEWS_S
from workers.engine.slot_values import answers_of
from workers.engine.worker_settings import Settings
from workers.library.registry import task_types

from ..agent_logs import logger
from ..node_files.node_store import CopyWishes, NewestDesired, NodeStore
from .broker_users import BrokerUsers
from .supervision import SlotProcess

TURN_S = 1.0


class CopyHolders:
    """A node's side of the choice of holders for copies of state.

    Parameters
    ----------
    sizes : callable
        About how many bytes the state of each query that runs, or is stopped, takes.
    on_held : callable
        Called when this node holds the state of other fragments than before.
    """

    def __init__(
        self, broker: redis.Redis, store: NodeStore, settings: Settings, *, newest: Callable[[], DesiredState],
        task_types: TaskTypes, sizes: Callable[[], Mapping[str, int]], on_held: Callable[[], None],
    ) -> None:
        self._broker, self._store, self._settings = broker, store, settings
        self._newest, self._task_types, self._sizes, self._on_held = newest, task_types, sizes, on_held

    def turn(self) -> None:
        """Look which nodes are there, and tell slots what to do.

        Raises
        ------
        redis.RedisError
            The broker does not answer: earlier orders stand.
        """
        node, before = self._store.node, self._store.read_copy_wishes() or CopyWishes()
        facts = {
            "zone": self._settings.zone, "room_bytes": self._settings.copies_mb << 20,
            RENEWS_S: self._settings.heartbeat_s}
        self._broker.hdel(keys.LOST, node)  # what is not gone on with elsewhere is handed over from here
        self._broker.hset(keys.HOLDERS, node, json.dumps(facts))
        living = tuple(sorted(name for name, _ in observed.read_reports(self._broker).items()))
        chosen = self._chosen(before, living)
        for name in chosen.keys() | before.own.keys():
            self._say(name, chosen.get(name, ()), before.own.get(name, ()))
        owners = texts(self._broker.hgetall(keys.copies_at(node)))
        pipeline = self._broker.pipeline(transaction=False)
        for name in owners:
            pipeline.hget(keys.ranges(name), "owner")
        for name, owner in zip(list(owners), answers_of(pipeline) if owners else (), strict=True):  # slots write there
            if owner not in (None, name.encode()):  # somebody has gone on with it
                self._broker.hdel(keys.copies_at(node), name)
                del owners[name]
        if owners.keys() != before.held.keys() and owners:
            self._on_held()
        self._store.write_copy_wishes(CopyWishes(chosen, owners, living))

    def _chosen(self, before: CopyWishes, living: Sequence[str]) -> dict[str, tuple[str, ...]]:
        node, sizes = self._store.node, self._sizes()
        facts = {name: json.loads(text) for name, text in texts(self._broker.hgetall(keys.HOLDERS)).items()}
        nodes = {
            name: HoldingNode(facts[name]["zone"] or name, facts[name]["room_bytes"])
            for name in living if name in facts}
        fragments = self._newest().wanted
        queries = {
            name: CopiedQuery(node, sizes[name], before.own.get(name, ()))
            for name, fragment in fragments.items()
            if name in sizes and not why_not_copied(fragment, self._task_types)}
        chosen = choose_holders(queries, nodes, copies=self._settings.copies)
        # One that does not run just now keeps the holders that it has.
        staying = {name: nodes for name, nodes in before.own.items()
                   if name in fragments and name not in sizes and not why_not_copied(fragments[name], self._task_types)}
        return {name: holders for name, holders in (*staying.items(), *chosen.items()) if holders}

    def _say(self, name: str, now: Sequence[str], before: Sequence[str]) -> None:
        for holder in now:
            self._broker.hset(keys.copies_at(holder), name, self._store.node)
        for holder in set(before) - set(now):
            self._broker.hdel(keys.copies_at(holder), name)
            with suppress(redis.ResponseError):  # slots write there: what is none stops no other query's copies
                self._broker.hdel(keys.copies(name), holder)


class HoldersThread(threading.Thread):
    """Looks every second until it is stopped."""

    def __init__(self, holders: CopyHolders) -> None:
        super().__init__(name="copies", daemon=True)
        self._holders, self._stopping = holders, threading.Event()

    def run(self) -> None:
        """Go on while the broker is away."""
        while not self._stopping.wait(TURN_S):
            try:
                with suppress(redis.RedisError):
                    self._holders.turn()
            except Exception as error:
                logger().error("copies cannot be looked after", exc_info=error)

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()


def state_bytes_of(slots: Sequence[SlotProcess]) -> dict[str, int]:
    """About how many bytes the state of each query that runs, or is stopped, takes, as slots tell."""
    return {
        name: 1024 * (report.get("state_kb") or 0) for slot in slots if slot.state == "running"
        for name, report in slot.report.get("fragments", {}).items() if report.get("state") in (RUNNING, STOPPED)}


def holders_thread(
    broker: redis.Redis, store: NodeStore, settings: Settings, *, slots: Callable[[], Sequence[SlotProcess]],
    users: BrokerUsers,
) -> tuple[HoldersThread, ...]:
    """The thread that looks after copies, where there are to be any; where there were some, slots are told to keep
    nothing."""
    if not settings.copies:
        if store.read_copy_wishes() is not None:
            store.write_copy_wishes(CopyWishes())
        return ()
    holders = CopyHolders(
        broker, store, settings, newest=NewestDesired(store), task_types=task_types(),
        sizes=lambda: state_bytes_of(slots()), on_held=users.expect)
    return (HoldersThread(holders),)
