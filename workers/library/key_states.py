"""The states of a fold by key, as those have them who go on with some of its keys each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from scheduler.model.ring import KEY_GROUPS, key_group

from .state_store import packed


def states_of_keys(texts: Iterable[str | None], key_ranges: Sequence[tuple[int, int]]) -> str | None:
    """The states of the keys in some ranges of the ring, of several texts with states by key; None of no state at all.

    Parameters
    ----------
    texts : iterable of str or None
        JSON, as folds keep it without a store. No key has a state in two of them.
    key_ranges : sequence of (int, int)
        The first key group of each range, and how many it has.
    """
    has = bytearray(KEY_GROUPS)
    for first, size in key_ranges:
        for group in range(first, first + size):
            has[group % KEY_GROUPS] = 1
    texts = [text for text in texts if text is not None]
    states = {key: state for text in texts for key, state in json.loads(text).items() if has[key_group(key)]}
    return packed(states) if texts else None
