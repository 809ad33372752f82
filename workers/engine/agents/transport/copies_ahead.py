"""Copies that go ahead of a handover to another node: one slot's side of sending them, and of taking them.

First all of a fragment's state goes, then in rounds what was written since, as long as a round leaves less for the end
(``ahead.py``). The copy, or the last round that has come, is ``<heir>.ahead`` on the one node and ``<heir>.copy`` on
the other; ``<heir>.newer`` is the round that is on its way. The heir says in the broker which it has (``stored``), or
that what it was sent is of no use to it: then the whole record is sent at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import redis

from workers.engine.channels import keys

from ..agent_logs import logger
from .ahead import Ahead, CopyLimits, Sent, goes_as_difference, how_far
from .news import AHEAD, COPY, NEWER, Broken, News, facts_of
from .parcels import MANIFEST, Manifest, Manifests, Parcel, Parcels, fetch, fields_of, is_whole, makes_of, offer
from .store_copies import MOST_OF_HEAD

STORED = "stored"
OF_NO_USE = b"nothing"  # stored of what came, for it was of no use
AHEAD_S = 3600  # after which a copy goes from the broker: it is sent again, if it is still needed

Note = Callable[[str, object], int]  # how far something is on its way to an heir: since when it is so far, in ms


class CopySender:
    """Sends copies ahead from one slot; ``sharing`` is how many parcels share one window."""

    def __init__(
        self, broker: redis.Redis, store: Any, news: News, parcels: Parcels, *, limits: CopyLimits
    ) -> None:
        self._broker, self._store, self._news, self._parcels, self._limits = broker, store, news, parcels, limits
        self._how_far: dict[str, Ahead] = {}
        self._copies: Counter[str] = Counter()  # that each heir has
        self._lengths: dict[str, tuple[tuple[str, int], ...]] = {}  # by heir, of the last copy and rounds
        self.sharing = 1
        self._given_up: set[str] = set()  # heirs for which no copy came about in time
        self._log = logger()

    @property
    def heirs(self) -> frozenset[str]:
        """Heirs that something may have been sent to."""
        return frozenset(self._how_far)

    def is_over(self, heir: str) -> bool:
        """True where nothing more goes ahead to an heir."""
        return self._how_far.get(heir) is Ahead.OVER

    def is_asked_for(self, heir: str) -> bool:
        """True where a copy for an heir, or a round after it, is to be made."""
        files = self._store.files
        kind = AHEAD if files.size(heir, AHEAD) is None else NEWER
        return self._how_far.get(heir) is Ahead.COPY and files.size(heir, kind) is None

    def turn(self, fragment_id: str, heir: str, *, is_ready: bool, note: Note) -> None:
        """See how far the copy of a fragment's state is, and send what is there of it."""
        before, has_copy = self._how_far.get(heir), self._parcel(heir, AHEAD) is not None
        # What was too little to go ahead may be enough after the batch that is under way.
        is_over = before is Ahead.OVER and (has_copy or heir in self._given_up)
        sent, so_far = Sent(has_copy=has_copy), None
        if has_copy and is_ready and not is_over:
            sent, so_far = self._send(heir)
        still_ms = note(heir, (is_ready, has_copy, so_far))
        self._how_far[heir] = now = how_far(
            sent, is_ready=is_ready, is_over=is_over, still_ms=still_ms, limits=self._limits,
            state_bytes=0 if is_over else self._store.state_bytes(fragment_id))
        if before is Ahead.COPY and now is Ahead.OVER:
            self._given_up.add(heir)
        if now is Ahead.OVER and before is not Ahead.OVER and has_copy:
            self._log.info(
                "state went ahead", fragment=fragment_id, to=heir, bytes=list(sent.lengths), is_stored=sent.is_stored)

    def send(self, name: str) -> Sent:
        """Send what is next of a copy that goes on and on: what has come of it then."""
        return self._send(name)[0] if self._parcel(name, AHEAD) is not None else Sent()

    def on_both_nodes(self, heir: str, *, is_refused: bool) -> Parcel | None:
        """The copy that has gone ahead to an heir and is on both nodes; None where its record has to go whole."""
        stored = self._broker.hget(keys.ahead(heir), STORED)
        copy, _ = self._advanced(heir, stored)
        copied = copy and copy.makes
        return copy if goes_as_difference(copied=copied, stored=stored, is_refused=is_refused) else None

    def drop(self, heir: str) -> None:
        """An heir has begun, or nobody wants it any more: what is here of it goes, and then what is in the broker."""
        self._store.files.drop(heir, NEWER, AHEAD)
        self._how_far.pop(heir, None)
        self._lengths.pop(heir, None)
        self._broker.delete(keys.ahead(heir))

    def _send(self, heir: str) -> tuple[Sent, object]:
        """Send what is next: what has gone ahead then, and how far what is on its way is."""
        stored = self._broker.hget(keys.ahead(heir), STORED)
        copy, newer = self._advanced(heir, stored)
        is_there = copy is not None and stored == copy.makes.encode()
        lengths = self._lengths.get(heir, ())
        if is_there and (not lengths or lengths[-1][0] != copy.makes):
            self._copies[heir] += 1
            self._lengths[heir] = lengths = ((copy.makes, copy.length),)
        going, taken = newer if is_there else copy, 0
        if going is not None and stored != OF_NO_USE:
            taken = offer(self._broker, keys.ahead(heir), going, expires_s=AHEAD_S, sharing=self.sharing)
        sent = Sent(
            has_copy=copy is not None, is_stored=is_there and newer is None, is_refused=stored == OF_NO_USE,
            copies=self._copies[heir], lengths=tuple(length for _, length in lengths),
            left_bytes=0 if going is None else sum(going.lengths[taken:]))
        return sent, (stored, going and going.makes, taken)

    def _advanced(self, heir: str, stored: bytes | None) -> tuple[Parcel | None, Parcel | None]:
        """The parcel that the heir has, or is to get first, and the round after it; both by the heir's report."""
        copy, newer = self._parcel(heir, AHEAD), self._parcel(heir, NEWER)
        if copy is None:
            return None, None
        if newer is not None and newer.base != copy.makes:
            self._store.files.drop(heir, NEWER)  # of another copy; or it was put into this one, and something died then
            newer = None
        if newer is not None and stored == newer.makes.encode():
            self._lengths[heir] = (*self._lengths.get(heir, ()), (newer.makes, newer.length))
            self._news.advance(heir)
            return self._parcel(heir, AHEAD), None
        return copy, newer

    def _parcel(self, heir: str, kind: str) -> Parcel | None:
        files = self._store.files
        if files.size(heir, kind) is None:
            return None
        return self._parcels.of(heir, kind, **facts_of(files.read(heir, kind, 0, MOST_OF_HEAD)))


class CopyReceiver:
    """Receives the copies that come ahead to one slot."""

    def __init__(self, broker: redis.Redis, store: Any, news: News, manifests: Manifests) -> None:
        self._broker, self._store, self._news, self._manifests = broker, store, news, manifests
        self._log = logger()

    def turn(
        self, heir: str, *, note: Note, on_taking: Callable[[], None] | None = None,
        on_taken: Callable[[str], None] | None = None,
    ) -> None:
        """Take what goes ahead of the record of an heir's predecessor, and say when it is on disk.

        Parameters
        ----------
        on_taking, on_taken : callable, optional
            Called before its stores are changed; and with its SHA-256, before it is said to be there: with `Broken` it
            is of no use.
        """
        key, files = keys.ahead(heir), self._store.files
        text, stored = fields_of(self._broker, key, MANIFEST, STORED)
        if text is None or stored == OF_NO_USE:
            return
        manifest = self._manifests.of(key, text)
        if manifest is None:
            return
        made, length = makes_of(manifest), files.size(heir, COPY)
        if stored == made["sha256"].encode() and length is not None:
            return
        kind: str | None = COPY
        if length != made["length"] or not is_whole(files.read(heir, COPY), made):
            taken, kind = fetch(self._broker, key, files, heir, manifest, to=COPY, expires_s=AHEAD_S)
            note(heir, (COPY, made["sha256"], taken))
            if kind is None:
                return
        if on_taking is not None:
            on_taking()
        is_taken = self._take(heir, kind, manifest, on_taken)
        self._broker.hset(key, STORED, made["sha256"] if is_taken else OF_NO_USE)
        self._broker.expire(key, AHEAD_S)

    def _take(
        self, heir: str, kind: str, manifest: Manifest, on_taken: Callable[[str], None] | None
    ) -> bool:
        try:
            self._news.take(heir, kind, manifest)
            if on_taken is not None:
                on_taken(makes_of(manifest)["sha256"])
        except Broken as error:
            self._log.warning("what came ahead is of no use; the whole is to come", fragment=heir, why=str(error))
            self._store.files.drop(heir, kind)
            return False
        return True
