"""The new part of a record since the copy of its state that went ahead: found on one node, put together on the other.

State that is kept by key goes by rows (``store_copies``), other state as the difference of two texts (``differences``).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.slot_values import UNREADABLE
from workers.library.key_states import KeyRanges
from workers.library.store_files import StateLost

from ..agent_logs import logger
from .differences import difference, put_together
from .parcels import Manifest, check_of, is_whole
from .store_copies import MOST_OF_HEAD, StoreCopies, is_of_stores, is_round, points_to_stores

AHEAD, NEWER, COPY, ENDED = "ahead", "newer", "copy", "ended"
# kinds of files: what goes ahead, and the round after it, where they were made; what has come of that; a record
_TEXT_ROUND = b'{"whole": '  # how the round of a text begins
# What comes of a text of another node that is none, or of what it is newer than: a slot there may have forged it, and
# one that fails over it here fails for all who are in it.
_BROKEN = (*UNREADABLE, FileNotFoundError, StateLost, sqlite3.Error)
_WHY = 300  # characters of that


class Broken(Exception):
    """A text cannot be put together: the whole has to be asked for."""


@dataclass(frozen=True, slots=True)
class StateDelta:
    """The new part of a state, and length and checksum of the record that it makes; without them it is by rows."""

    text: bytes
    whole: Mapping[str, Any] | None = None


def facts_of(head: bytes) -> Mapping[str, Any]:
    """The checksums of the base and of the result in a round's manifest; empty for a full copy."""
    if not head.startswith(_TEXT_ROUND) and not is_round(head):
        return {}
    facts = json.loads(head.partition(b"\n")[0])
    return {name: facts[name] for name in ("base", "rows", "whole") if name in facts}


def text_round(last: bytes, text: bytes, *, base: str, most_share: float) -> bytes | None:
    """A round of a text; None where all of it is to go again.

    Parameters
    ----------
    most_share : float
        The largest share of the text, from 0 to 1, up to which its difference is worth sending.
    """
    change = difference(last, text)
    if len(change) > most_share * len(text):
        return None
    return json.dumps({"whole": check_of(text), "base": base}).encode() + b"\n" + change


class News:
    """One slot's side of what is new in records.

    Parameters
    ----------
    most_share : float
        The largest share of a record, from 0 to 1, up to which its difference is worth sending.
    """

    def __init__(self, store: Any, *, most_share: float, keeps_stores: bool) -> None:
        self._store, self._most_share, self._keeps_stores = store, most_share, keeps_stores
        self._copies = StoreCopies(store.fold_stores.folder)
        self._log = logger()

    def since_copy(self, fragment_id: str, heir: str) -> StateDelta | None:
        """The new part of the record that a fragment left since what went ahead to its heir last; None where the whole
        is to go."""
        files = self._store.files
        head = files.read(heir, AHEAD, 0, MOST_OF_HEAD)
        if is_of_stores(head):
            return self._by_rows(fragment_id, heir, head)
        self._store.make_whole(fragment_id)
        whole = files.read(fragment_id, ENDED)
        change = difference(files.read(heir, AHEAD), whole)
        return StateDelta(change, check_of(whole)) if len(change) <= self._most_share * len(whole) else None

    def rows_since_copy(self, heir: str, record: Savepoint, ranges: KeyRanges) -> bytes | None:
        """The new part of a record, of the keys in some ranges, since the copy that went ahead to an heir last; None
        where that cannot be told."""
        head = self._store.files.read(heir, AHEAD, 0, MOST_OF_HEAD)
        return StoreCopies(self._store.fold_stores.folder, tuple(ranges)).change(head, record)

    def advance(self, heir: str) -> None:
        """The heir has the round: what is newer from now on is newer than that. Where what is here is broken, all of it
        is to go again."""
        files = self._store.files
        if is_round(files.read(heir, NEWER, 0, MOST_OF_HEAD)):
            files.rename(heir, NEWER, AHEAD)
            return
        try:
            files.write(heir, AHEAD, self._whole_record(files.read(heir, AHEAD), files.read(heir, NEWER)))
        except Broken:
            files.drop(heir, AHEAD)
        files.drop(heir, NEWER)

    def take(self, heir: str, kind: str, manifest: Manifest) -> None:
        """Make ready what has come ahead for an heir, and keep it as its copy; repeating it is safe.

        Parameters
        ----------
        kind : str
            The kind of the file with it; the copy itself, where a slot was killed before it was told.

        Raises
        ------
        Broken
            It is a round, and what it is newer than is not there.
        """
        files = self._store.files
        try:
            if is_of_stores(files.read(heir, kind, 0, MOST_OF_HEAD)):
                if self._keeps_stores:
                    self._copies.take(heir, files.read(heir, kind), check=manifest["sha256"])
                elif "base" in manifest:
                    raise Broken("no stores are kept here")
            elif "whole" in manifest and kind != COPY:
                files.write(heir, COPY, self._whole_record(files.read(heir, COPY), files.read(heir, kind)))
                files.drop(heir, kind)
                return
        except _BROKEN as error:
            raise _broken(error) from error
        if kind != COPY:
            files.rename(heir, kind, COPY)

    def record(self, name: str, check: str) -> bytes | None:
        """The record of a copy that was taken, to go on with by itself; None where it is no such copy.

        Raises
        ------
        Broken
            What has come is no copy.
        """
        text = self._store.files.read(name, COPY)
        try:
            if is_of_stores(text[:MOST_OF_HEAD]):
                return self._copies.record(name, text, check=check)
            require_own_states(SAVEPOINTS.loads(text))
        except _BROKEN as error:
            raise _broken(error) from error
        return text

    def put_together(self, heir: str, kind: str, manifest: Manifest) -> bytes:
        """The record, of what came ahead for an heir and what is new since.

        Raises
        ------
        Broken
            They do not give the record.
        """
        files = self._store.files
        try:
            change = files.read(heir, kind)
            if manifest.get("rows"):
                if not self._keeps_stores:
                    raise Broken("no stores are kept here")
                return self._copies.put_together(heir, change, check=manifest["base"])
            whole = put_together(files.read(heir, COPY), change)
            is_good = is_whole(whole, manifest["whole"])
            require_own_states(SAVEPOINTS.loads(whole))
        except _BROKEN as error:
            raise _broken(error) from error
        if not is_good:
            raise Broken("it is not what was sent")
        return whole

    @staticmethod
    def _whole_record(last: bytes, newer: bytes) -> bytes:
        """A text, of that before and a round."""
        head, _, change = newer.partition(b"\n")
        try:
            whole = put_together(last, change)
        except ValueError as error:
            raise Broken(str(error)) from error
        if not is_whole(whole, json.loads(head)["whole"]):
            raise Broken("it is not what was sent")
        return whole

    def _by_rows(self, fragment_id: str, heir: str, head: bytes) -> StateDelta | None:
        ended = self._store.ended(fragment_id)
        if ended is None:
            return None
        try:
            change = self._copies.change(head, ended)
        except StateLost as error:
            self._log.warning("its state cannot go by rows", fragment=fragment_id, to=heir, why=str(error))
            return None
        return None if change is None else StateDelta(change)


def require_own_states(saved: Savepoint) -> None:
    """Raise `Broken` where states of a record that came whole are in stores: here are none that it could mean."""
    if points_to_stores(saved.states):
        raise Broken("it points to stores that did not come with it")


def _broken(error: Exception) -> Broken:
    return error if isinstance(error, Broken) else Broken(f"{type(error).__name__}: {error}"[:_WHY])
