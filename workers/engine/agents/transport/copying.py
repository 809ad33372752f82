"""Copying: the state of a query that works, as it is between two batches, is put beside its checkpoint for its heirs.

``<heir>.ahead`` has all of it, or what was sent last; ``<heir>.newer`` is the round after that: what was written since.
"""

from __future__ import annotations

import hashlib
from typing import Any

from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.library.key_states import KeyRanges
from workers.library.store_files import StateLost

from .ahead import LIMITS, CopyLimits
from .news import AHEAD, NEWER, text_round
from .parcels import PIECE_BYTES, Files
from .store_copies import MOST_OF_HEAD, StoreCopies, is_of_stores, points_to_stores


def make_copies(
    store: Any, heirs: tuple[str, ...], saved: Savepoint, *, limits: CopyLimits = LIMITS, ranges: KeyRanges = (),
) -> None:
    """Make a copy of state for each heir that has none, and for the others a round.

    One may be on its way, or there already: that is not made anew. And a copy may have what came after it was asked
    for: what is new since is sent.

    Parameters
    ----------
    heirs : tuple of str
        Fragments of other nodes that are to go on with the state, or names of copies.
    saved : Savepoint
        The state; of a copy that may be gone on with by itself, also where that is (``repeats``).
    ranges : iterable of (int, int), optional
        Of keys whose rows alone go; by default all do.
    """
    files, stores = store.files, StoreCopies(store.fold_stores.folder, tuple(ranges))
    whole: bytes | None = None
    for heir in heirs:
        has_copy = files.size(heir, AHEAD) is not None
        if has_copy and files.size(heir, NEWER) is not None:
            continue
        newer = _newer(files, stores, heir, saved, limits) if has_copy else None
        if newer is not None:
            files.write(heir, NEWER, newer)
        else:  # the first time, or the round cannot be told from the copy
            files.drop(heir, NEWER)
            whole = whole or stores.copy(saved.states) or _text(saved)
            files.write(heir, AHEAD, whole)


def _newer(files: Files, stores: StoreCopies, heir: str, saved: Savepoint, limits: CopyLimits) -> bytes | None:
    base, head = _check(files, heir), files.read(heir, AHEAD, 0, MOST_OF_HEAD)
    if is_of_stores(head):
        try:
            return stores.newer(head, saved, base=base)
        except StateLost:
            return None
    if points_to_stores(saved.states):
        return None  # it has grown to be rows meanwhile
    return text_round(files.read(heir, AHEAD), _text(saved), base=base, most_share=limits.most_share)


def _check(files: Files, heir: str) -> str:
    """The SHA-256 of what was sent last."""
    check = hashlib.sha256()
    for first in range(0, files.size(heir, AHEAD) or 0, PIECE_BYTES):
        check.update(files.read(heir, AHEAD, first, PIECE_BYTES))
    return check.hexdigest()


def _text(saved: Savepoint) -> bytes:
    return SAVEPOINTS.dumps(saved).encode()
