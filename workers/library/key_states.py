"""The states of a fold by key, as those have them who go on with some of its keys each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from scheduler.model.ring import KEY_GROUPS, key_group

from .state_store import packed
from .watermarks import is_of_all_keys, joined, of_keys

KeyRanges = Iterable[tuple[int, int]]  # the first key group of each, and how many it has


def states_of_keys(texts: Iterable[tuple[str | None, KeyRanges]]) -> str | None:
    """The states of the keys in some ranges of the ring, of several texts with states by key; None of no state at all.

    Parameters
    ----------
    texts : iterable of (str or None, ranges)
        JSON, as folds keep it without a store, and which ranges count of it. No key group counts of two of them.
    """
    texts_with_tables = [(text, table_of(ranges)) for text, ranges in texts if text is not None]
    states: dict[str, Any] = {}
    for text, counts in texts_with_tables:

        def has(key: str, counts: bytearray = counts) -> bool:
            return bool(counts[key_group(key)])

        for key, state in json.loads(text).items():
            if is_of_all_keys(state):
                part = of_keys(state, has)
                states[key] = joined(states[key], part) if key in states else part
            elif has(key):
                states[key] = state
    return packed(states) if texts_with_tables else None


def table_of(ranges: KeyRanges) -> bytearray:
    """By key group: whether it is in the ranges."""
    table = bytearray(KEY_GROUPS)
    for first, size in ranges:
        for group in range(first, first + size):
            table[group % KEY_GROUPS] = 1
    return table
