"""State deltas: what is new in a record since the copy of its state that went ahead. One node finds it, the other
merges.

State by key goes as rows (``store_copies``), other state as the difference of two texts (``differences``).
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
# kinds of files: a copy that goes ahead and the round after it, on their own node; the merged copy; a record
_TEXT_ROUND = b'{"whole": '  # how the round of a text begins
# Errors of a damaged text of another node, or of its base. A slot there may have forged it, and must not make the slot
# here fail.
_BROKEN = (*UNREADABLE, FileNotFoundError, StateLost, sqlite3.Error)
_WHY = 300  # characters of such an error


class Broken(Exception):
    """A text cannot be merged: the whole has to be asked for."""


@dataclass(frozen=True, slots=True)
class StateDelta:
    """The new part of a state, with length and checksum of the merged record; without these it is rows."""

    text: bytes
    whole: Mapping[str, Any] | None = None


def facts_of(head: bytes) -> Mapping[str, Any]:
    """The checksums of the base and of the result in a round's manifest; empty for a full copy."""
    if not head.startswith(_TEXT_ROUND) and not is_round(head):
        return {}
    facts = json.loads(head.partition(b"\n")[0])
    return {name: facts[name] for name in ("base", "rows", "whole") if name in facts}


def text_round(last: bytes, text: bytes, *, base: str, most_share: float) -> bytes | None:
    """A round of a text; None if all of it is to be sent again.

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
        """The new part of a fragment's record since the last copy for its heir; None if the whole record is to go."""
        files = self._store.files
        head = files.read(heir, AHEAD, 0, MOST_OF_HEAD)
        if is_of_stores(head):
            return self._by_rows(fragment_id, heir, head)
        self._store.make_whole(fragment_id)
        whole = files.read(fragment_id, ENDED)
        change = difference(files.read(heir, AHEAD), whole)
        return StateDelta(change, check_of(whole)) if len(change) <= self._most_share * len(whole) else None

    def rows_since_copy(self, heir: str, record: Savepoint, ranges: KeyRanges) -> bytes | None:
        """The new rows of a record, of the keys in some ranges, since the last copy for an heir; None if that is
        unknown."""
        head = self._store.files.read(heir, AHEAD, 0, MOST_OF_HEAD)
        return StoreCopies(self._store.fold_stores.folder, tuple(ranges)).change(head, record)

    def advance(self, heir: str) -> None:
        """Take the round that the heir has as the new base. If a file of it is broken here, all of it is sent again."""
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
        """Merge what has come ahead for an heir, and keep it as its copy. It is safe to repeat.

        Parameters
        ----------
        kind : str
            The kind of the file that has it; `COPY` if a slot was killed after the merge.

        Raises
        ------
        Broken
            It is a round, and its base is missing.
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
        """The record of a merged copy, to go on from without a handover; None if it is no such copy.

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
        """The record, merged of the copy that came ahead for an heir and the delta.

        Raises
        ------
        Broken
            They do not make the record.
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
        """The text that a round makes of the last one."""
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
    """Raise `Broken` if a record that came whole points to stores: there are none here."""
    if points_to_stores(saved.states):
        raise Broken("it points to stores that did not come with it")


def _broken(error: Exception) -> Broken:
    return error if isinstance(error, Broken) else Broken(f"{type(error).__name__}: {error}"[:_WHY])
