"""Carrying: what a fragment leaves goes through the broker to the node of the one that goes on with its work.

The record that a fragment leaves on its own node (``<fragment>.ended``) is sent in pieces, then a manifest with lengths
and SHA-256 of them and of the whole. The heir's node claims it, checks it and writes it beside the heir's checkpoint
(``<heir>.received``); from there on a handover is as on one node. When the heir has begun, its node says so, and what
is left of the old one is cleared away.

The claim is the fencing token of a handover: one field that whoever sets it first has. With the heir's id in it the old
fragment never runs again; with the old one's, the heir never begins. Every step can be repeated, so that slots, agents
and the connection to the broker may go at any moment; and a fragment works on until its heir stands by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.channels import keys

from .delays import RETRY_MS, SOON_MS
from .handover import remote_successors
from .logs import logger

PIECE_BYTES = 256 << 10
PIECES_AT_ONCE = 16  # of which the broker is asked in one round trip
READY_S = 5  # after which an heir that is not heard of counts as one that does not stand by
QUICK_MS = 20_000  # for so long each moment counts, then the other node may be away
LEFT_S = 7 * 24 * 3600  # after which a record goes that nobody has claimed: it is sent again, if it is still needed
MANIFEST, CLAIM, BEGUN = "manifest", "claim", "begun"
READY = b"ready"


class NotWhole(Exception):
    """A record has come that is not what was sent."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is known of the heirs that other nodes have: which have begun, and which are ready to."""

    begun: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()


class Carrier:
    """One slot's side of all handovers between its node and others.

    Parameters
    ----------
    broker : redis.Redis
        The broker.
    store : SlotStore
        The slot's records.
    clock_ms : callable
        The time in ms since the epoch.
    """

    def __init__(self, broker: redis.Redis, store: Any, *, clock_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._store = store
        self._clock_ms = clock_ms
        self._since_ms: dict[str, int] = {}  # of what is under way, by heir
        self._due_ms: dict[str, int] = {}
        self._ready: dict[str, bool] = {}  # heirs elsewhere, as they said last
        self._settled: set[str] = set()
        self._log = logger()

    @property
    def is_busy(self) -> bool:
        """Whether a handover with another node is under way for which every moment counts."""
        now_ms = self._clock_ms()
        return any(now_ms - since_ms < QUICK_MS for since_ms in self._since_ms.values())

    def turn(self, desired: DesiredState, slot: str) -> Elsewhere:
        """Do what is due for the fragments of a slot, and tell how far those of other nodes are.

        While the broker is away nothing is known of others, and nothing ends for them.
        """
        mine = desired.handing_over.get(slot, ())
        leaving = [(fragment, heir) for fragment in mine for heir in remote_successors(desired, fragment.id)]
        coming = [
            fragment for fragment in (*desired.of_slot(slot), *mine) if desired.is_from_elsewhere(fragment)]
        if not leaving and not coming and not desired.remote_heirs:
            self._forget(())
            return Elsewhere()
        under_way = [heir.id for _, heir in leaving if heir.id not in self._settled]
        under_way += [heir.id for heir in coming if heir.id not in self._settled]
        self._forget(under_way)
        try:
            for fragment, heir in leaving:
                if self._is_due(heir.id):
                    self._send_off(fragment, heir)
            for heir in coming:
                if self._is_due(heir.id):
                    self._receive(desired, heir)
            self._say_nothing_is_left(desired)
        except redis.RedisError:
            self._ready.clear()
        except NotWhole as error:
            self._log.error("what was left on another node came broken; it is asked for again", error=str(error))
        heirs = frozenset(desired.heirs_elsewhere)
        return Elsewhere(
            begun=self._store.taken() & heirs,
            ready=frozenset(name for name, is_ready in self._ready.items() if is_ready and name in heirs))

    # -- the node that a fragment leaves -------------------------------------------------------------------------------

    def _send_off(self, fragment: WantedFragment, heir: WantedFragment) -> None:
        key = keys.handover(fragment.id)
        is_taken = heir.id in self._store.taken()
        manifest, begun = (None, None) if is_taken else self._broker.hmget(key, MANIFEST, BEGUN)
        if is_taken or begun == heir.id.encode():
            if not is_taken:
                self._store.record_taken(heir.id)
            self._broker.delete(key)
            self._settled.add(heir.id)
            return
        is_ready = self._broker.get(keys.heir(heir.id)) == READY
        if is_ready and not self._ready.get(heir.id):
            self._since_ms[heir.id] = self._clock_ms()  # from here on somebody waits
        self._ready[heir.id] = is_ready
        ended = self._store.ended(fragment.id)
        if ended is not None and manifest is None:
            send(self._broker, fragment.id, ended)
            self._log.info("record sent", fragment=fragment.id, to=heir.id)

    def _say_nothing_is_left(self, desired: DesiredState) -> None:
        """An heir elsewhere of what this node never ran is not to wait for it: it begins with nothing."""
        for heir in desired.heirs_elsewhere.values():
            name = heir.inherits[-1]
            if name in desired.outgoing or name in desired.wanted or not self._is_due(heir.id):
                continue
            if heir.id in self._store.taken() or self._store.known(name) is not None:
                self._settled.add(heir.id)
                continue
            key = keys.handover(name)
            manifest, claimed, begun = self._broker.hmget(key, MANIFEST, CLAIM, BEGUN)
            if begun == heir.id.encode():
                self._store.record_taken(heir.id)
                self._broker.delete(key)
            elif claimed == heir.id.encode() and len(heir.inherits) > 1:
                self._store.record_taken(heir.id)  # it goes on with what is on its own node; this expires
            elif manifest is None:
                send(self._broker, name, Savepoint())

    # -- the node where it goes on -------------------------------------------------------------------------------------

    def _receive(self, desired: DesiredState, heir: WantedFragment) -> None:
        if self._store.has(heir.id, "begun"):
            self._say_begun(heir)
            return
        # One that is to run stands by first; one that is not to takes over and goes.
        waits = heir.id in desired.wanted and not heir.paused and not heir.leaving
        if not waits or heir.id in self._store.standing():
            if not self._ready.get(heir.id):
                self._ready[heir.id], self._since_ms[heir.id] = True, self._clock_ms()
            self._broker.set(keys.heir(heir.id), READY, ex=READY_S)
        name = heir.inherits[-1]
        savepoint = claim(self._broker, name, heir.id) if self._store.received(heir.id) is None else None
        if savepoint == Savepoint() and len(heir.inherits) > 1:
            # It was to come back from a node that has not heard of it: it goes on with what is here.
            self._store.record_void(heir.id)
            self._settled.add(heir.id)
            self._log.warning("the other node has not heard of it", fragment=heir.id, last=name)
        elif savepoint is not None:
            self._store.record_received(heir.id, savepoint)
            self._log.info("record received", fragment=heir.id, from_=name)

    def _say_begun(self, heir: WantedFragment) -> None:
        """Say that it has begun, until the other node has cleared away what it left."""
        key = keys.handover(heir.inherits[-1])
        if not self._broker.exists(key):
            self._settled.add(heir.id)
        elif self._broker.hget(key, BEGUN) != heir.id.encode():
            self._broker.hset(key, BEGUN, heir.id)

    # -- when ----------------------------------------------------------------------------------------------------------

    def _forget(self, under_way: Iterable[str]) -> None:
        now_ms = self._clock_ms()
        self._since_ms = {heir: self._since_ms.get(heir, now_ms) for heir in under_way}
        self._due_ms = {heir: due_ms for heir, due_ms in self._due_ms.items() if heir in self._since_ms}

    def _is_due(self, heir: str) -> bool:
        now_ms = self._clock_ms()
        if heir in self._settled or now_ms < self._due_ms.get(heir, 0):
            return False
        is_quick = now_ms - self._since_ms.get(heir, now_ms) < QUICK_MS
        self._due_ms[heir] = now_ms + (SOON_MS if is_quick else RETRY_MS)
        return True


def still_leaving(desired: DesiredState, store: Any) -> tuple[str, ...]:
    """The fragments that go on on other nodes and of which this one has still something to do, or to clear away."""
    taken = store.taken() if desired.remote_heirs else frozenset()
    return tuple(sorted(
        name for heir in desired.heirs_elsewhere.values() for name in heir.inherits[-1:]
        if heir.id not in taken or store.has(name, "ended") or store.is_recorded(name)))


def send(broker: redis.Redis, fragment_id: str, savepoint: Savepoint) -> None:
    """Send what a fragment left: the pieces first, then their manifest, by which it is there. Repeating it is safe."""
    text = SAVEPOINTS.dumps(savepoint).encode()
    pieces = [text[at : at + PIECE_BYTES] for at in range(0, len(text), PIECE_BYTES)]
    key = keys.handover(fragment_id)
    for first in range(0, len(pieces), PIECES_AT_ONCE):
        broker.hset(key, mapping={
            _piece(first + number): piece for number, piece in enumerate(pieces[first : first + PIECES_AT_ONCE])})
    broker.expire(key, LEFT_S)
    manifest = {**_check(text), "pieces": [_check(piece) for piece in pieces]}
    broker.hset(key, MANIFEST, json.dumps(manifest))


def claim(broker: redis.Redis, fragment_id: str, heir: str) -> Savepoint | None:
    """What a fragment left, for an heir that nobody else goes on with it after; None where it is not there, or another
    has claimed it.

    Raises
    ------
    NotWhole
        A piece is missing, or is not what the manifest says; it will be sent again.
    """
    key = keys.handover(fragment_id)
    manifest, claimed = broker.hmget(key, MANIFEST, CLAIM)
    if manifest is None or claimed not in (None, heir.encode()):
        return None
    text = _fetched(broker, key, json.loads(manifest))
    try:
        savepoint = SAVEPOINTS.loads(text)
    except InvalidContract as error:
        raise NotWhole(f"{fragment_id}: {error}") from error
    if claimed is None:
        broker.hsetnx(key, CLAIM, heir)
        if broker.hget(key, CLAIM) != heir.encode():
            return None
    return savepoint


def withdraw(broker: redis.Redis, fragment_id: str) -> str | None:
    """Take back what a fragment left, for it works on; the heir that has claimed it, where that is too late."""
    key = keys.handover(fragment_id)
    broker.hsetnx(key, CLAIM, fragment_id)
    claimed = broker.hget(key, CLAIM)
    if claimed not in (None, fragment_id.encode()):
        return claimed.decode()
    broker.delete(key)
    return None


def _fetched(broker: redis.Redis, key: str, manifest: dict[str, Any]) -> bytes:
    checks, parts = manifest["pieces"], []
    for first in range(0, len(checks), PIECES_AT_ONCE):
        names = [_piece(number) for number in range(first, min(first + PIECES_AT_ONCE, len(checks)))]
        parts += broker.hmget(key, names)
    text = b"".join(part or b"" for part in parts)
    broken = [number for number, part in enumerate(parts) if part is None or _check(part) != checks[number]]
    if broken or _check(text) != {name: manifest[name] for name in ("length", "sha256")}:
        broker.hdel(key, MANIFEST)
        raise NotWhole(f"{key}: pieces {broken} of {len(checks)}")
    return text


def _check(data: bytes) -> dict[str, Any]:
    return {"length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _piece(number: int) -> str:
    return f"piece:{number}"
