"""State transport: the record that a fragment leaves goes through the broker to the node of its heir.

Where the state is large, a copy of it goes ahead while the fragment works on (``copies_ahead.py``). At its end the
fragment leaves a record on its own node (``<fragment>.ended``). This record, or only what is new in it since the copy,
is sent as a parcel (``parcels.py``). The heir's node puts both together, checks the result, claims the record, and
keeps it beside the heir's checkpoint (``<heir>.received``). From there on a handover is as on one node. Once the heir
has begun, its node says so, and the rest of the old fragment is deleted.

Whoever claims the record first goes on with it (``claims.py``). Every step can be repeated, so slots, agents and the
connection to the broker may fail at any moment. A fragment works on until its heir stands by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.channels import keys
from workers.engine.slot_values import UNREADABLE

from ..agent_logs import logger
from ..reconciling.delays import RETRY_MS, SOON_MS
from ..reconciling.handover_stages import remote_successors
from .ahead import LIMITS, CopyLimits
from .claims import CLAIM, claim
from .copies_ahead import CopyReceiver, CopySender
from .copy_takeover import go_on_from_copy
from .gifts import BEGUN, DIFFERENCE, LEFT_S, RECEIVED, REFUSED, Gifts
from .news import COPY, ENDED, Broken, News, require_own_states
from .parcels import (
    COMING,
    MANIFEST,
    PIECE_BYTES,
    Manifest,
    Manifests,
    Parcel,
    Parcels,
    fetch,
    fields_of,
    offer,
    parcel_of,
)

READY_S = 5  # after which an heir that is not heard of counts as one that does not stand by
REFUSED_MS = 10_000  # a slot may hear of a plan before it may touch the plan's keys: then this is not told
QUICK_MS = 20_000  # for so long each moment counts, then the other node may be away
WHOLE = f"{COMING}-{RECEIVED}-whole"
READY = b"ready"
_NOTHING = SAVEPOINTS.dumps(Savepoint()).encode()
NOTHING = parcel_of(len(_NOTHING), lambda first, length: _NOTHING[first : first + length], piece_bytes=PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The state of the heirs that other nodes have: which have begun, which are ready to and have what goes ahead, and
    for which a copy of the state is to be made."""

    begun: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()
    to_copy: frozenset[str] = frozenset()


class StateTransport:
    """One slot's side of all handovers between its node and others."""

    def __init__(
        self, broker: redis.Redis, store: Any, *, clock_ms: Callable[[], int], limits: CopyLimits = LIMITS,
        piece_bytes: int = PIECE_BYTES, keeps_stores: bool = True,
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock_ms = clock_ms
        self._news = News(store, most_share=limits.most_share, keeps_stores=keeps_stores)
        self._parcels, self._manifests = Parcels(store.files, piece_bytes=piece_bytes), Manifests()
        self._leaving = CopySender(broker, store, self._news, self._parcels, limits=limits)
        self._receiver = CopyReceiver(broker, store, self._news, self._manifests)
        self._gifts = Gifts(
            broker, store, self._news, self._parcels, self._manifests, limits=limits, note=self._note)
        self._since_ms: dict[str, int] = {}  # of what is under way, by heir
        self._due_ms: dict[str, int] = {}
        self._ready: dict[str, bool] = {}  # heirs elsewhere, as they said last
        self._progress: dict[str, object] = {}  # by heir, how far what is on its way was when it was last looked at
        self._moved_ms: dict[str, int] = {}  # and since when it is so far
        self._outgoing: dict[str, Parcel] = {}  # by heir, what is sent as its record
        self._settled_names: set[str] = set()
        self._refused_ms: dict[str, int] = {}  # by heir or gift, since when the broker refuses its keys
        self._unread: dict[str, str] = {}  # by heir or gift, why what another node wrote cannot be read
        self._log = logger()

    @property
    def is_busy(self) -> bool:
        """True where a handover with another node is under way for which every moment counts."""
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
        fragments = desired.of_slot(slot)
        gifts = self._unsettled(
            (fragment.id, taker) for fragment in fragments for taker in desired.takers if fragment.id in taker.taken)
        taken = self._unsettled((giver, heir) for heir in fragments for giver in heir.remote_givers)
        is_moving = leaving or coming or desired.remote_heirs or self._leaving.heirs
        if not is_moving and not gifts and not taken:
            self._forget(())
            return Elsewhere()
        under_way = [heir.id for _, heir in leaving if heir.id not in self._settled_names]
        under_way += [heir.id for heir in coming if heir.id not in self._settled_names]
        under_way += [keys.gift_name(giver, heir.id) for giver, heir in (*gifts, *taken)]
        self._forget(under_way)
        try:
            self._take_back_copies({heir.id for _, heir in leaving})
            for fragment, heir in leaving:
                if self._is_due(heir.id):
                    with self._alone(heir.id):
                        self._send_off(fragment, heir)
            for heir in coming:
                if self._is_due(heir.id):
                    with self._alone(heir.id):
                        self._receive(desired, heir)
            self._say_nothing_is_left(desired)
            for giver, taker in gifts:
                self._pass(giver, taker, partial(self._gifts.send, sharing=len(gifts)))
            for giver, heir in taken:
                self._pass(giver, heir, self._gifts.receive)
        except redis.RedisError:
            self._ready.clear()
        heirs = frozenset(desired.heirs_elsewhere)
        ready = frozenset(name for name, is_ready in self._ready.items() if is_ready and name in heirs)
        return Elsewhere(
            begun=self._store.taken() & heirs,
            ready=frozenset(name for name in ready if self._leaving.is_over(name)),
            to_copy=frozenset(name for name in ready if self._leaving.is_asked_for(name)))

    def _unsettled(self, gifts: Iterable[tuple[str, WantedFragment]]) -> list[tuple[str, WantedFragment]]:
        return [(giver, heir) for giver, heir in gifts if keys.gift_name(giver, heir.id) not in self._settled_names]

    def _pass(self, giver: str, heir: WantedFragment, do: Callable[[str, WantedFragment], bool]) -> None:
        """Do what is due of a gift, until it is over."""
        gift = keys.gift_name(giver, heir.id)
        if self._is_due(gift):
            with self._alone(gift):
                if do(giver, heir):
                    self._settled_names.add(gift)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """A context in which what a slot of another node wrote is none of what is sent: it stops this one alone.

        Keys that the broker refuses are tried again, and told only where that lasts.
        """
        try:
            yield
            self._refused_ms.pop(name, None)
        except UNREADABLE as error:
            now_ms = self._clock_ms()
            is_refused = isinstance(error, redis.exceptions.NoPermissionError)
            if is_refused and now_ms - self._refused_ms.setdefault(name, now_ms) < REFUSED_MS:
                return
            reason = f"{type(error).__name__}: {error}"[:300]
            if self._unread.get(name) != reason:
                self._unread[name] = reason
                self._log.warning("what another node wrote cannot be read", fragment=name, why=reason)

    # -- the node that a fragment leaves -------------------------------------------------------------------------------

    def _send_off(self, fragment: WantedFragment, heir: WantedFragment) -> None:
        key = keys.handover(fragment.id)
        is_taken = heir.id in self._store.taken()
        begun = None if is_taken else self._broker.hget(key, BEGUN)
        if is_taken or begun == heir.id.encode():
            if not is_taken:
                self._store.record_taken(heir.id)
            self._broker.delete(key)
            self._store.files.drop(heir.id, DIFFERENCE)
            self._leaving.drop(heir.id)
            self._settled_names.add(heir.id)
            return
        is_ready = self._broker.get(keys.heir(heir.id)) == READY
        if is_ready and not self._ready.get(heir.id):
            self._since_ms[heir.id] = self._clock_ms()  # from here on somebody waits
        self._ready[heir.id] = is_ready
        if self._store.has(fragment.id, ENDED):
            self._send_end(fragment, heir)
        else:
            self._leaving.turn(fragment.id, heir.id, is_ready=is_ready, note=self._note)

    def _send_end(self, fragment: WantedFragment, heir: WantedFragment) -> None:
        key = keys.handover(fragment.id)
        ended_ms = self._store.ended_ms(fragment.id)
        sent = self._outgoing.get(heir.id)
        is_refused = self._broker.hget(key, REFUSED) is not None
        if sent is None or (is_refused and sent.base is not None):
            began_s = time.monotonic()
            sent = self._difference(fragment, heir, is_refused=is_refused, ended_ms=ended_ms)
            sent = sent or self._full_parcel(fragment, ended_ms=ended_ms)
            if sent is None:
                return  # it goes on after all
            self._outgoing[heir.id] = sent
            self._log.info(
                "record sent", fragment=fragment.id, to=heir.id, bytes=sent.length, is_whole=sent.base is None,
                took_ms=round(1000 * (time.monotonic() - began_s)))
        taken = offer(self._broker, key, sent, expires_s=LEFT_S)
        self._note(heir.id, (ENDED, taken))

    def _full_parcel(self, fragment: WantedFragment, *, ended_ms: int | None) -> Parcel | None:
        if not self._parcels.has(fragment.id, ENDED):
            self._store.make_whole(fragment.id)
        return self._parcels.of(fragment.id, ENDED, ended_ms=ended_ms)

    def _difference(
        self, fragment: WantedFragment, heir: WantedFragment, *, is_refused: bool, ended_ms: int | None
    ) -> Parcel | None:
        """What is new in its record since the copy that went ahead; None where the whole is to be sent."""
        copy = self._leaving.on_both_nodes(heir.id, is_refused=is_refused)
        change = None if copy is None else self._news.since_copy(fragment.id, heir.id)
        if change is None:
            return None
        self._store.files.write(heir.id, DIFFERENCE, change.text)
        facts = {"rows": True} if change.whole is None else {"whole": change.whole}
        return self._parcels.of(heir.id, DIFFERENCE, base=copy.makes, ended_ms=ended_ms, **facts)

    def _take_back_copies(self, leaving: set[str]) -> None:
        """What went ahead to an heir that nobody wants any more goes."""
        for heir in self._leaving.heirs - leaving:
            self._store.files.drop(heir, DIFFERENCE)
            self._leaving.drop(heir)

    def _say_nothing_is_left(self, desired: DesiredState) -> None:
        """An heir elsewhere of what this node never ran is not to wait for it: it begins with nothing."""
        for heir in desired.heirs_elsewhere.values():
            name = heir.inherits[-1]
            if name in desired.outgoing or name in desired.wanted or not self._is_due(heir.id):
                continue
            if heir.id in self._store.taken() or self._store.known_fragment(name) is not None:
                self._settled_names.add(heir.id)
                continue
            with self._alone(heir.id):
                self._say_nothing_to(heir, keys.handover(name))

    def _say_nothing_to(self, heir: WantedFragment, key: str) -> None:
        manifest, claimed, begun = fields_of(self._broker, key, MANIFEST, CLAIM, BEGUN)
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
            self._receiver.turn(heir.id, note=self._note)
            self._fetch_end(heir)

    def _fetch_end(self, heir: WantedFragment) -> None:
        """Take what its predecessor left, and claim it, so that nobody else goes on with it."""
        name, files = heir.inherits[-1], self._store.files
        key = keys.handover(name)
        text, claimed, refused = fields_of(self._broker, key, MANIFEST, CLAIM, REFUSED)
        if claimed in (None, heir.id.encode()) and self._broker.hexists(keys.LOST, heir.origin) and go_on_from_copy(
                self._broker, files, name, heir, node=self._store.folder.parent.name):
            self._log.warning("it goes on from a copy, for its node is lost", fragment=heir.id, from_=name)
            return  # without a copy that counts the node may be back, and hand over
        if text is None or claimed not in (None, heir.id.encode()):
            return
        manifest = self._manifests.of(key, text)
        if manifest is None or (refused is not None and "base" in manifest):
            return  # the whole is to come
        taken, kind = fetch(self._broker, key, files, heir.id, manifest, to=RECEIVED, expires_s=LEFT_S)
        self._note(heir.id, (RECEIVED, taken))
        if kind is not None:
            kind = self._put_together(heir, kind, manifest)
            if kind is None:
                self._broker.hset(key, REFUSED, 1)
                self._broker.expire(key, LEFT_S)
        if kind is None or not claim(self._broker, name, heir.id, manifest=text):
            return
        if len(heir.inherits) > 1 and files.read(heir.id, kind) == _NOTHING:
            # It was to come back from a node that has not heard of it: it goes on with what is here.
            self._store.record_void(heir.id)
            self._settled_names.add(heir.id)
            self._log.warning("the other node has not heard of it", fragment=heir.id, last=name)
        else:
            if manifest.get("ended_ms") is not None:
                files.date(heir.id, kind, manifest["ended_ms"])  # since when nothing works
            files.rename(heir.id, kind, RECEIVED)
            self._log.info("record received", fragment=heir.id, from_=name, bytes=files.size(heir.id, RECEIVED))
        files.drop(heir.id, COPY, *files.kinds(heir.id, COMING))

    def _put_together(self, heir: WantedFragment, kind: str, manifest: Manifest) -> str | None:
        """Make the record of the copy that came ahead and the difference, where it did not come whole; None where that
        gives none."""
        try:
            if "base" not in manifest:
                require_own_states(SAVEPOINTS.loads(self._store.files.read(heir.id, kind)))
                return kind
            whole = self._news.put_together(heir.id, kind, manifest)
        except (Broken, InvalidContract) as error:
            self._log.warning("what came is broken; the whole is asked for", fragment=heir.id, why=str(error))
            return None
        self._store.files.write(heir.id, WHOLE, whole)
        return WHOLE

    def _say_begun(self, heir: WantedFragment) -> None:
        """Report that it has begun, until the other node has deleted its part."""
        key = keys.handover(heir.inherits[-1])
        if not self._broker.exists(key):
            self._store.files.drop(heir.id, RECEIVED)  # it is in what it began with
            self._settled_names.add(heir.id)
        elif self._broker.hget(key, BEGUN) != heir.id.encode():
            self._broker.hset(key, BEGUN, heir.id)

    # -- when ----------------------------------------------------------------------------------------------------------

    def _note(self, heir: str, so_far: object) -> int:
        """Note how far something is that is on its way to an heir: as long as it gets further, every moment counts.

        It gives since when it is so far, in ms.
        """
        now_ms = self._clock_ms()
        if self._progress.get(heir) != so_far or heir not in self._moved_ms:
            if heir in self._moved_ms:
                self._since_ms[heir] = now_ms
            self._progress[heir], self._moved_ms[heir] = so_far, now_ms
        return now_ms - self._moved_ms[heir]

    def _forget(self, under_way: Iterable[str]) -> None:
        now_ms = self._clock_ms()
        self._since_ms = {heir: self._since_ms.get(heir, now_ms) for heir in under_way}
        for of_heirs in (self._due_ms, self._progress, self._moved_ms, self._outgoing, self._unread, self._refused_ms):
            for heir in of_heirs.keys() - self._since_ms.keys():
                del of_heirs[heir]
        if not self._since_ms:
            self._parcels.forget()
            self._manifests.forget()

    def _is_due(self, heir: str) -> bool:
        now_ms = self._clock_ms()
        if heir in self._settled_names or now_ms < self._due_ms.get(heir, 0):
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
