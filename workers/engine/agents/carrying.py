"""Carrying: what a fragment leaves goes through the broker to the node of the one that goes on with its work.

Where its state is large, a copy of it goes ahead while the fragment works on (``ahead.py``). The record that it leaves
on its own node (``<fragment>.ended``) is sent then, or what is new in it since the copy, as a parcel
(``parcels.py``). The heir's node puts both together, checks it, claims it, and keeps it beside the heir's checkpoint
(``<heir>.received``); from there on a handover is as on one node. When the heir has begun, its node says so, and what
is left of the old one is cleared away.

Who goes on is whoever claims the record first (``claims.py``). Every step can be repeated, so that slots, agents and
the connection to the broker may go at any moment; and a fragment works on until its heir stands by.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.channels import keys

from .ahead import LIMITS, Ahead, Limits, goes_as_difference, how_far
from .claims import CLAIM, claim
from .delays import RETRY_MS, SOON_MS
from .handover import remote_successors
from .logs import logger
from .news import AHEAD, COPY, ENDED, Broken, News
from .parcels import COMING, MANIFEST, PIECE_BYTES, Manifest, Parcel, fetch, is_whole, offer, parcel_of

READY_S = 5  # after which an heir that is not heard of counts as one that does not stand by
QUICK_MS = 20_000  # for so long each moment counts, then the other node may be away
LEFT_S = 7 * 24 * 3600  # after which a record goes that nobody has claimed: it is sent again, if it is still needed
AHEAD_S = 3600  # the same of a copy that goes ahead
BEGUN, STORED, REFUSED = "begun", "stored", "refused"
DIFFERENCE, RECEIVED = "difference", "received"  # kinds of files
WHOLE = f"{COMING}-{RECEIVED}-whole"
READY = b"ready"
_NOTHING = SAVEPOINTS.dumps(Savepoint()).encode()
NOTHING = parcel_of(len(_NOTHING), lambda first, length: _NOTHING[first : first + length], piece_bytes=PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is known of the heirs that other nodes have: which have begun, which are ready to and have what goes ahead,
    and for which a copy of the state is to be made."""

    begun: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()
    to_copy: frozenset[str] = frozenset()


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
    limits : Limits, optional
        What goes ahead.
    piece_bytes : int, optional
        How long the pieces of a parcel are.
    keeps_stores : bool, optional
        Whether queries here keep state by key in stores; else it comes as a text.
    """

    def __init__(
        self, broker: redis.Redis, store: Any, *, clock_ms: Callable[[], int], limits: Limits = LIMITS,
        piece_bytes: int = PIECE_BYTES, keeps_stores: bool = True,
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock_ms = clock_ms
        self._limits = limits
        self._piece_bytes = piece_bytes
        self._news = News(store, most_share=limits.most_share, keeps_stores=keeps_stores)
        self._since_ms: dict[str, int] = {}  # of what is under way, by heir
        self._due_ms: dict[str, int] = {}
        self._ready: dict[str, bool] = {}  # heirs elsewhere, as they said last
        self._ahead: dict[str, Ahead] = {}  # how far the copies for them are
        self._seen: dict[str, object] = {}  # by heir, how far what is on its way was when it was last looked at
        self._moved_ms: dict[str, int] = {}  # and since when it is so far
        self._sent: dict[str, Parcel] = {}  # by heir, what is sent as its record
        self._parcels: dict[tuple[str, str], tuple[object, Parcel]] = {}
        self._manifests: dict[str, tuple[bytes, Manifest]] = {}
        self._given_up: set[str] = set()  # heirs for which no copy came about in time
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
        if not leaving and not coming and not desired.remote_heirs and not self._ahead:
            self._forget(())
            return Elsewhere()
        under_way = [heir.id for _, heir in leaving if heir.id not in self._settled]
        under_way += [heir.id for heir in coming if heir.id not in self._settled]
        self._forget(under_way)
        try:
            self._take_back_copies({heir.id for _, heir in leaving})
            for fragment, heir in leaving:
                if self._is_due(heir.id):
                    self._send_off(fragment, heir)
            for heir in coming:
                if self._is_due(heir.id):
                    self._receive(desired, heir)
            self._say_nothing_is_left(desired)
        except redis.RedisError:
            self._ready.clear()
        heirs = frozenset(desired.heirs_elsewhere)
        ready = frozenset(name for name, is_ready in self._ready.items() if is_ready and name in heirs)
        return Elsewhere(
            begun=self._store.taken() & heirs,
            ready=frozenset(name for name in ready if self._ahead.get(name) is Ahead.OVER),
            to_copy=frozenset(
                name for name in ready
                if self._ahead.get(name) is Ahead.COPY and self._store.files.size(name, AHEAD) is None))

    # -- the node that a fragment leaves -------------------------------------------------------------------------------

    def _send_off(self, fragment: WantedFragment, heir: WantedFragment) -> None:
        key = keys.handover(fragment.id)
        is_taken = heir.id in self._store.taken()
        begun = None if is_taken else self._broker.hget(key, BEGUN)
        if is_taken or begun == heir.id.encode():
            if not is_taken:
                self._store.record_taken(heir.id)
            self._broker.delete(key, keys.ahead(heir.id))
            self._store.files.drop(heir.id, AHEAD, DIFFERENCE)
            self._settled.add(heir.id)
            return
        is_ready = self._broker.get(keys.heir(heir.id)) == READY
        if is_ready and not self._ready.get(heir.id):
            self._since_ms[heir.id] = self._clock_ms()  # from here on somebody waits
        self._ready[heir.id] = is_ready
        if self._store.has(fragment.id, ENDED):
            self._send_end(fragment, heir)
        else:
            self._send_ahead(fragment, heir, is_ready=is_ready)

    def _send_ahead(self, fragment: WantedFragment, heir: WantedFragment, *, is_ready: bool) -> None:
        """See how far the copy of its state is, and send what is there of it."""
        before, copy = self._ahead.get(heir.id), self._parcel(heir.id, AHEAD)
        # What was too little to go ahead may be enough after the batch that is under way.
        is_over = before is Ahead.OVER and (copy is not None or heir.id in self._given_up)
        taken, stored = 0, None
        if copy is not None and is_ready and not is_over:
            taken = offer(self._broker, keys.ahead(heir.id), copy, expires_s=AHEAD_S)
            stored = self._broker.hget(keys.ahead(heir.id), STORED)
        self._note(heir.id, (is_ready, copy is not None, taken))
        still_ms = self._clock_ms() - self._moved_ms[heir.id]
        self._ahead[heir.id] = how_far(
            is_ready=is_ready, is_over=is_over, has_copy=copy is not None, least_bytes=self._limits.least_bytes,
            state_bytes=0 if is_over else self._store.state_bytes(fragment.id),
            is_stored=copy is not None and stored == copy.sha256.encode(), still_ms=still_ms)
        if before is Ahead.COPY and self._ahead[heir.id] is Ahead.OVER:
            self._given_up.add(heir.id)
        if self._ahead[heir.id] is Ahead.OVER and before is not Ahead.OVER and copy is not None:
            self._log.info(
                "state went ahead", fragment=fragment.id, to=heir.id, bytes=copy.length,
                is_stored=stored is not None)

    def _send_end(self, fragment: WantedFragment, heir: WantedFragment) -> None:
        key = keys.handover(fragment.id)
        ended_ms = self._store.ended_ms(fragment.id)
        sent = self._sent.get(heir.id)
        is_refused = self._broker.hget(key, REFUSED) is not None
        if sent is None or (is_refused and sent.base is not None):
            began_s = time.monotonic()
            sent = self._difference(fragment, heir, is_refused=is_refused, ended_ms=ended_ms)
            sent = sent or self._whole(fragment, ended_ms=ended_ms)
            if sent is None:
                return  # it goes on after all
            self._sent[heir.id] = sent
            copy = self._parcel(heir.id, AHEAD)
            self._log.info(
                "record sent", fragment=fragment.id, to=heir.id, bytes=sent.length,
                of_bytes=sent.length if copy is None else copy.length,
                took_ms=round(1000 * (time.monotonic() - began_s)))
        taken = offer(self._broker, key, sent, expires_s=LEFT_S)
        self._note(heir.id, (ENDED, taken))

    def _whole(self, fragment: WantedFragment, *, ended_ms: int | None) -> Parcel | None:
        if (fragment.id, ENDED) not in self._parcels:
            self._store.make_whole(fragment.id)
        return self._parcel(fragment.id, ENDED, ended_ms=ended_ms)

    def _difference(
        self, fragment: WantedFragment, heir: WantedFragment, *, is_refused: bool, ended_ms: int | None
    ) -> Parcel | None:
        """What is new in its record since the copy that went ahead; None where the whole is to be sent."""
        files, copy = self._store.files, self._parcel(heir.id, AHEAD)
        stored = self._broker.hget(keys.ahead(heir.id), STORED)
        if copy is None or not goes_as_difference(copied=copy.sha256, stored=stored, is_refused=is_refused):
            return None
        change = self._news.since_copy(fragment.id, heir.id)
        if change is None:
            return None
        files.write(heir.id, DIFFERENCE, change.text)
        facts = {"rows": True} if change.whole is None else {"whole": change.whole}
        return self._parcel(heir.id, DIFFERENCE, base=copy.sha256, ended_ms=ended_ms, **facts)

    def _parcel(self, name: str, kind: str, **facts: Any) -> Parcel | None:
        """A file as it is sent; read again only where it has changed."""
        files, stamp = self._store.files, self._store.files.stamp(name, kind)
        if stamp is None:
            return None
        known = self._parcels.get((name, kind))
        if known is None or known[0] != stamp:
            length = files.size(name, kind) or 0
            parcel = parcel_of(length, partial(files.read, name, kind), piece_bytes=self._piece_bytes, **facts)
            known = self._parcels[name, kind] = (stamp, parcel)
        return known[1]

    def _take_back_copies(self, leaving: set[str]) -> None:
        """What went ahead to an heir that nobody wants any more goes."""
        for heir in self._ahead.keys() - leaving:
            self._broker.delete(keys.ahead(heir))
            self._store.files.drop(heir, AHEAD, DIFFERENCE)
            del self._ahead[heir]

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
            elif manifest in (None, NOTHING.manifest.encode()):
                offer(self._broker, key, NOTHING, expires_s=LEFT_S)

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
        if not self._store.has(heir.id, RECEIVED):
            self._fetch_copy(heir)
            self._fetch_end(heir)

    def _fetch_copy(self, heir: WantedFragment) -> None:
        """Take what goes ahead of its predecessor's record, and say when it is on disk."""
        key, files = keys.ahead(heir.id), self._store.files
        text, stored = self._broker.hmget(key, MANIFEST, STORED)
        if text is None:
            return
        manifest = self._manifest(key, text)
        length = files.size(heir.id, COPY)
        if stored == manifest["sha256"].encode() and length is not None:
            return
        if length != manifest["length"] or not is_whole(files.read(heir.id, COPY), manifest):
            taken, kind = fetch(self._broker, key, files, heir.id, manifest, to=COPY, expires_s=AHEAD_S)
            self._note(heir.id, (COPY, taken))
            if kind is None:
                return
            files.rename(heir.id, kind, COPY)
        self._news.take_copy(heir.id, check=manifest["sha256"])
        self._broker.hset(key, STORED, manifest["sha256"])
        self._broker.expire(key, AHEAD_S)

    def _fetch_end(self, heir: WantedFragment) -> None:
        """Take what its predecessor left, and claim it, so that nobody else goes on with it."""
        name, files = heir.inherits[-1], self._store.files
        key = keys.handover(name)
        text, claimed, refused = self._broker.hmget(key, MANIFEST, CLAIM, REFUSED)
        if text is None or claimed not in (None, heir.id.encode()):
            return
        manifest = self._manifest(key, text)
        if refused is not None and "base" in manifest:
            return  # the whole is to come
        taken, kind = fetch(self._broker, key, files, heir.id, manifest, to=RECEIVED, expires_s=LEFT_S)
        self._note(heir.id, (RECEIVED, taken))
        if kind is not None and "base" in manifest:
            kind = self._put_together(heir, kind, manifest)
            if kind is None:
                self._broker.hset(key, REFUSED, 1)
                self._broker.expire(key, LEFT_S)
        if kind is None or not claim(self._broker, name, heir.id, manifest=text):
            return
        if len(heir.inherits) > 1 and files.read(heir.id, kind) == _NOTHING:
            # It was to come back from a node that has not heard of it: it goes on with what is here.
            self._store.record_void(heir.id)
            self._settled.add(heir.id)
            self._log.warning("the other node has not heard of it", fragment=heir.id, last=name)
        else:
            if manifest.get("ended_ms") is not None:
                files.date(heir.id, kind, manifest["ended_ms"])  # since when nothing works
            files.rename(heir.id, kind, RECEIVED)
            self._log.info("record received", fragment=heir.id, from_=name, bytes=files.size(heir.id, RECEIVED))
        files.drop(heir.id, COPY, *files.kinds(heir.id, COMING))

    def _put_together(self, heir: WantedFragment, kind: str, manifest: Manifest) -> str | None:
        """Make the record of the copy that came ahead and the difference; None where they do not give it."""
        try:
            whole = self._news.put_together(heir.id, kind, manifest)
        except Broken as error:
            self._log.warning("what came ahead is broken; the whole is asked for", fragment=heir.id, why=str(error))
            return None
        self._store.files.write(heir.id, WHOLE, whole)
        return WHOLE

    def _manifest(self, key: str, text: bytes) -> Manifest:
        known = self._manifests.get(key)
        if known is None or known[0] != text:
            known = self._manifests[key] = (text, json.loads(text))
        return known[1]

    def _say_begun(self, heir: WantedFragment) -> None:
        """Say that it has begun, until the other node has cleared away what it left."""
        key = keys.handover(heir.inherits[-1])
        if not self._broker.exists(key):
            self._store.files.drop(heir.id, RECEIVED)  # it is in what it began with
            self._settled.add(heir.id)
        elif self._broker.hget(key, BEGUN) != heir.id.encode():
            self._broker.hset(key, BEGUN, heir.id)

    # -- when ----------------------------------------------------------------------------------------------------------

    def _note(self, heir: str, so_far: object) -> None:
        """Note how far something is that is on its way to an heir: as long as it gets further, every moment counts."""
        now_ms = self._clock_ms()
        if self._seen.get(heir) != so_far or heir not in self._moved_ms:
            if heir in self._moved_ms:
                self._since_ms[heir] = now_ms
            self._seen[heir], self._moved_ms[heir] = so_far, now_ms

    def _forget(self, under_way: Iterable[str]) -> None:
        now_ms = self._clock_ms()
        self._since_ms = {heir: self._since_ms.get(heir, now_ms) for heir in under_way}
        for of_heirs in (self._due_ms, self._seen, self._moved_ms, self._sent):
            for heir in of_heirs.keys() - self._since_ms.keys():
                del of_heirs[heir]
        if not self._since_ms:
            self._parcels.clear()
            self._manifests.clear()

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
