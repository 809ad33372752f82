"""What is new in a record since the copy of its state that went ahead: found on one node, put together on the other.

State that is kept by key goes by rows (``store_copies``), other state as the difference of two texts (``differences``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.library.store_files import StateLost

from .differences import difference, put_together
from .logs import logger
from .parcels import Manifest, check_of, is_whole
from .store_copies import MOST_OF_HEAD, StoreCopies, is_of_stores

AHEAD, COPY, ENDED = "ahead", "copy", "ended"  # kinds of files: a copy where it was made and where it came; a record


class Broken(Exception):
    """Why a record cannot be put together: the whole has to be asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is new, and length and checksum of the record that it makes; without them it is by rows."""

    text: bytes
    whole: Mapping[str, Any] | None = None


class News:
    """One slot's side of what is new in records.

    Parameters
    ----------
    store : SlotStore
        The slot's records.
    most_share : float
        Up to which share of a record its difference is worth sending.
    keeps_stores : bool
        Whether queries here keep state by key in stores.
    """

    def __init__(self, store: Any, *, most_share: float, keeps_stores: bool) -> None:
        self._store, self._most_share, self._keeps_stores = store, most_share, keeps_stores
        self._copies = StoreCopies(store.fold_stores.folder)
        self._log = logger()

    def since_copy(self, fragment_id: str, heir: str) -> Change | None:
        """What is new in the record that a fragment left since the copy for its heir; None where the whole is to go."""
        files = self._store.files
        head = files.read(heir, AHEAD, 0, MOST_OF_HEAD)
        if is_of_stores(head):
            return self._by_rows(fragment_id, heir, head)
        self._store.make_whole(fragment_id)
        whole = files.read(fragment_id, ENDED)
        change = difference(files.read(heir, AHEAD), whole)
        return Change(change, check_of(whole)) if len(change) <= self._most_share * len(whole) else None

    def take_copy(self, heir: str, *, check: str) -> None:
        """Make ready what has come ahead for an heir; ``check`` is its SHA-256."""
        files = self._store.files
        if self._keeps_stores and is_of_stores(files.read(heir, COPY, 0, MOST_OF_HEAD)):
            self._copies.take(heir, files.read(heir, COPY), check=check)

    def put_together(self, heir: str, kind: str, manifest: Manifest) -> bytes:
        """The record, of what came ahead for an heir and what is new since.

        Parameters
        ----------
        heir : str
            The fragment that goes on with it.
        kind : str
            The kind of the file with what is new.
        manifest : mapping
            Its manifest.

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
        except (ValueError, FileNotFoundError, StateLost) as error:
            raise Broken(str(error)) from error
        if not is_whole(whole, manifest["whole"]):
            raise Broken("it is not what was sent")
        return whole

    def _by_rows(self, fragment_id: str, heir: str, head: bytes) -> Change | None:
        ended = self._store.ended(fragment_id)
        if ended is None:
            return None
        try:
            change = self._copies.change(head, ended)
        except StateLost as error:
            self._log.warning("its state cannot go by rows", fragment=fragment_id, to=heir, why=str(error))
            return None
        return None if change is None else Change(change)
