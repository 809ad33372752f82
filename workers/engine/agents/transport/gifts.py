"""Gifts: the states of keys that a bundle leaves for one of another node go there through the broker.

The giver's record for the heir (``<giver>--<heir>.ended``, or ``<giver>.ended`` of one that leaves) is put down without
pointers (``.gift``) and sent as a parcel. The heir's node keeps it as ``<giver>--<heir>.ended``; from there on keys
change hands as on one node. It needs no claim: who has given keys away never works on with them, and who is to have
them next takes them from the heir.
"""

from __future__ import annotations

from typing import Any

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.channels import keys
from workers.library.store_files import StateLost

from ..agent_logs import logger
from .parcels import MANIFEST, Manifests, Parcel, Parcels, fetch, offer

BEGUN = "begun"
GIFT, RECEIVED = "gift", "received"  # kinds of files
LEFT_S = 7 * 24 * 3600  # after which a gift goes from the broker: it is sent again, if it is still needed


class Gifts:
    """One slot's side of the gifts of its bundles to those of other nodes, and of theirs to its own."""

    def __init__(self, broker: redis.Redis, store: Any, parcels: Parcels, manifests: Manifests) -> None:
        self._broker, self._store, self._parcels, self._manifests = broker, store, parcels, manifests
        self._log = logger()

    def send(self, giver: str, taker: WantedFragment, *, sharing: int) -> object | None:
        """Send what a bundle gives to one of another node: how far that is; None once the heir has begun with it.

        Parameters
        ----------
        sharing : int
            How many gifts share the window of one parcel.
        """
        gift, files = keys.gift_name(giver, taker.id), self._store.files
        key = keys.handover(gift)
        is_taken = taker.id in self._store.taken()
        if is_taken or self._broker.hget(key, BEGUN) == taker.id.encode():
            if not is_taken:
                self._store.record_taken(taker.id)
            self._broker.delete(key)
            files.drop(gift, GIFT)
            self._store.record_ended(gift, None)
            return None
        parcel = self._parcel(giver, gift, taker)
        return (gift, parcel and offer(self._broker, key, parcel, expires_s=LEFT_S, sharing=sharing))

    def receive(self, giver: str, heir: WantedFragment) -> object | None:
        """Take what a bundle of another node gives to one of this slot: how far that is; None once that node has heard
        that the heir has begun with it."""
        gift, files = keys.gift_name(giver, heir.id), self._store.files
        key = keys.handover(gift)
        if self._store.has(heir.id, BEGUN):
            self._store.record_ended(gift, None)
            if not self._broker.exists(key):
                return None
            if self._broker.hget(key, BEGUN) != heir.id.encode():
                self._broker.hset(key, BEGUN, heir.id)
                self._broker.expire(key, LEFT_S)
            return (gift, BEGUN)
        if self._store.ended(gift) is not None:
            return (gift, RECEIVED)
        text = self._broker.hget(key, MANIFEST)
        manifest = None if text is None else self._manifests.of(key, text)
        if manifest is None:
            return (gift, None)
        taken, kind = fetch(self._broker, key, files, gift, manifest, to=RECEIVED, expires_s=LEFT_S)
        if kind is not None:
            try:
                self._store.record_ended(gift, SAVEPOINTS.loads(files.read(gift, kind)))
            except InvalidContract as error:
                self._log.warning("what was given cannot be read; it is asked for again", gift=gift, why=str(error))
            else:
                if manifest.get("ended_ms") is not None:
                    files.date(gift, "ended", manifest["ended_ms"])  # since when nothing works at these keys
                self._log.info("keys received", gift=gift, bytes=manifest["length"])
            files.drop(gift, kind)
        return (gift, taken)

    def _parcel(self, giver: str, gift: str, taker: WantedFragment) -> Parcel | None:
        """What is sent; None while the giver has left nothing for the heir."""
        files, given = self._store.files, self._store.ended(gift)
        left = given or self._store.ended(giver)
        if left is None:
            return None
        if files.size(gift, GIFT) is None:
            try:
                states = self._store.fold_stores.given(
                    left.states, taker.taken[giver], is_final=given is not None)
            except StateLost as error:
                self._log.warning("states cannot be given; they are read again", gift=gift, why=str(error))
                return None
            files.write(gift, GIFT, SAVEPOINTS.dumps(Savepoint(states=states)).encode())
            self._log.info("keys sent", gift=gift, bytes=files.size(gift, GIFT))
        return self._parcels.of(
            gift, GIFT, ended_ms=self._store.ended_ms(gift if given else giver))
