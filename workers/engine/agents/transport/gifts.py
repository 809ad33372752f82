"""Gifts: the states of keys that a bundle leaves for one of another node go there through the broker.

While both work, rows of these keys go ahead, first all and then in rounds, as before a move (``copies_ahead.py``); once
nothing more does, the heir hears that it need not wait for that (``near``). The giver's record for the heir
(``<giver>--<heir>.ended``, or ``<giver>.ended`` of one that leaves) is sent as what is new since, or, where nothing
went ahead, without pointers (``.gift``). The heir's node keeps it as ``<giver>--<heir>.ended``; from there on keys
change hands as on one node. It needs no claim: who has given keys away never works on with them, and who is to have
them next takes them from the heir.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.channels import keys
from workers.library.store_files import StateLost

from ..agent_logs import logger
from .ahead import CopyLimits
from .copies_ahead import CopyReceiver, CopySender, Note
from .copying import make_copies
from .news import COPY, Broken, News, require_own_states
from .parcels import COMING, MANIFEST, Manifest, Manifests, Parcel, Parcels, fetch, fields_of, offer

BEGUN, NEAR, REFUSED = "begun", "near", "refused"
GIFT, DIFFERENCE, RECEIVED = "gift", "difference", "received"  # kinds of files
LEFT_S = 7 * 24 * 3600  # after which a gift goes from the broker: it is sent again, if it is still needed


class Gifts:
    """One slot's side of the gifts of its bundles to those of other nodes, and of theirs to its own.

    Parameters
    ----------
    note : callable
        Notes how far something is on its way.
    """

    def __init__(
        self, broker: redis.Redis, store: Any, news: News, parcels: Parcels, manifests: Manifests, *,
        limits: CopyLimits, note: Note,
    ) -> None:
        self._broker, self._store, self._news, self._note = broker, store, news, note
        self._parcels, self._manifests, self._limits = parcels, manifests, limits
        self._leaving = CopySender(broker, store, news, parcels, limits=limits)
        self._receiver = CopyReceiver(broker, store, news, manifests)
        self._outgoing: dict[str, Parcel] = {}
        self._log = logger()

    # -- the giver's node ----------------------------------------------------------------------------------------------

    def send(self, giver: str, taker: WantedFragment, *, sharing: int) -> bool:
        """Send what is next of what a bundle gives to one of another node: whether the heir has begun with it.

        Parameters
        ----------
        sharing : int
            The number of gifts that share the window of one parcel.
        """
        gift = keys.gift_name(giver, taker.id)
        key = keys.handover(gift)
        begun, near, refused = fields_of(self._broker, key, BEGUN, NEAR, REFUSED)
        is_taken = taker.id in self._store.taken()
        if is_taken or begun == taker.id.encode():
            if not is_taken:
                self._store.record_taken(taker.id)
            self._broker.delete(key)
            self._leaving.drop(gift)
            self._store.files.drop(gift, GIFT, DIFFERENCE)
            self._store.record_ended(gift, None)
            self._outgoing.pop(gift, None)
            return True
        final = self._store.ended(gift)
        savepoint = final or self._store.ended(giver)
        if savepoint is None:
            self._leaving.sharing = sharing
            if near is None and not self._goes_ahead(giver, gift, taker.taken[giver]):
                self._broker.hset(key, NEAR, 1)
                self._broker.expire(key, LEFT_S)
            return False
        sent = self._outgoing.get(gift)
        if sent is None or (refused is not None and sent.base is not None):
            ranges, ended_ms = taker.taken[giver], self._store.ended_ms(gift if final else giver)
            try:
                sent = self._difference(
                    gift, savepoint, ranges, is_final=final is not None, is_refused=refused is not None,
                    ended_ms=ended_ms)
                sent = sent or self._full_parcel(gift, savepoint, ranges, is_final=final is not None, ended_ms=ended_ms)
            except StateLost as error:
                self._log.warning("states cannot be given; they are read again", gift=gift, why=str(error))
                return False
            self._outgoing[gift] = sent
            self._log.info("keys sent", gift=gift, bytes=sent.length, is_whole=sent.base is None)
        self._note(gift, (GIFT, offer(self._broker, key, sent, expires_s=LEFT_S, sharing=sharing)))
        return False

    def _goes_ahead(self, giver: str, gift: str, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether rows still go ahead, or are to; those that are next are made and sent."""
        stores = self._store.fold_stores
        try:
            pointers = stores.newest(giver)
            if not pointers:
                return False
            self._leaving.turn(giver, gift, is_ready=True, note=self._note)
            if self._leaving.is_asked_for(gift):
                saved = Savepoint(states={"": [str(pointer) for pointer in pointers]})
                make_copies(self._store, (gift,), saved, limits=self._limits, ranges=ranges)
        except StateLost:
            return True  # it has another store by now
        return not self._leaving.is_over(gift)

    def _difference(
        self, gift: str, savepoint: Savepoint, ranges: Sequence[tuple[int, int]], *, is_final: bool, is_refused: bool,
        ended_ms: int | None,
    ) -> Parcel | None:
        """What is new in a gift since what went ahead; None where the whole is to be sent."""
        copy = self._leaving.on_both_nodes(gift, is_refused=is_refused)
        if copy is None:
            return None
        states = self._store.fold_stores.at_newest(savepoint.states) if is_final else savepoint.states
        change = self._news.rows_since_copy(gift, Savepoint(states=states), ranges)
        if change is None:
            return None
        self._store.files.write(gift, DIFFERENCE, change)
        return self._parcels.of(gift, DIFFERENCE, base=copy.makes, ended_ms=ended_ms, rows=True)

    def _full_parcel(
        self, gift: str, savepoint: Savepoint, ranges: Sequence[tuple[int, int]], *, is_final: bool,
        ended_ms: int | None,
    ) -> Parcel:
        states = self._store.fold_stores.given(savepoint.states, ranges, is_final=is_final)
        self._store.files.write(gift, GIFT, SAVEPOINTS.dumps(Savepoint(states=states)).encode())
        return self._parcels.of(gift, GIFT, ended_ms=ended_ms)

    # -- the heir's node -----------------------------------------------------------------------------------------------

    def receive(self, giver: str, heir: WantedFragment) -> bool:
        """Take the next part of the gift of another node's bundle to one of this slot; True once that node knows that
        the heir has begun with it."""
        gift, files = keys.gift_name(giver, heir.id), self._store.files
        key = keys.handover(gift)
        if self._store.has(heir.id, BEGUN):
            self._store.record_ended(gift, None)
            files.drop(gift, NEAR, COPY, *files.kinds(gift, COMING))
            if not self._broker.exists(key):
                return True
            if self._broker.hget(key, BEGUN) != heir.id.encode():
                self._broker.hset(key, BEGUN, heir.id)
                self._broker.expire(key, LEFT_S)
            return False
        if self._store.ended(gift) is not None:
            return False
        self._receiver.turn(gift, note=self._note)
        text, near, refused = fields_of(self._broker, key, MANIFEST, NEAR, REFUSED)
        if near is not None and files.size(gift, NEAR) is None:
            files.write(gift, NEAR, b"")
        manifest = None if text is None else self._manifests.of(key, text)
        if manifest is None or (refused is not None and "base" in manifest):
            return False  # the whole is to come
        taken, kind = fetch(self._broker, key, files, gift, manifest, to=RECEIVED, expires_s=LEFT_S)
        self._note(gift, (RECEIVED, taken))
        if kind is not None:
            self._keep(gift, kind, manifest)
            files.drop(gift, kind)
        return False

    def _keep(self, gift: str, kind: str, manifest: Manifest) -> None:
        """Record what has come; where it cannot be read, the whole is to come."""
        try:
            is_rows = "base" in manifest
            text = self._news.put_together(gift, kind, manifest) if is_rows else self._store.files.read(gift, kind)
            savepoint = SAVEPOINTS.loads(text)
            if not is_rows:
                require_own_states(savepoint)
        except (Broken, InvalidContract) as error:
            self._log.warning("what was given cannot be read; the whole is asked for", gift=gift, why=str(error))
            self._broker.hset(keys.handover(gift), REFUSED, 1)
            self._broker.expire(keys.handover(gift), LEFT_S)
            return
        self._store.record_ended(gift, savepoint)
        if manifest.get("ended_ms") is not None:
            self._store.files.date(gift, "ended", manifest["ended_ms"])  # since when nothing works at these keys
        self._log.info("keys received", gift=gift, bytes=manifest["length"])
