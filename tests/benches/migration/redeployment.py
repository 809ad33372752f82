"""Random task re-deployment (paper [4], section 5.2): so many bundles go to other slots, and all stay spread evenly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

TRIES = 50  # of which the one that spreads them most evenly is taken


def redeployed(
    placement: Mapping[str, str], slots: Sequence[str], *, moved: int, chance: random.Random
) -> dict[str, str]:
    """Which bundles move, and to which slots.

    Parameters
    ----------
    placement : mapping of str to str
        The slot of each bundle.
    slots : sequence of str
        All slots, two at least.
    moved : int
        How many bundles move, at most all.
    chance : random.Random
        Which of them.

    Returns
    -------
    dict
        The new slot of each that moves, never its own.

    Raises
    ------
    ValueError
        There are not so many bundles, or no two slots.
    """
    if moved > len(placement) or len(slots) < 2:
        raise ValueError(f"{moved} of {len(placement)} bundles cannot move among {len(slots)} slots.")
    tries = [_drawn(placement, slots, moved=moved, chance=chance) for _ in range(TRIES)]
    return min(tries, key=lambda moves: _spread({**placement, **moves}, slots))


def _drawn(placement: Mapping[str, str], slots: Sequence[str], *, moved: int, chance: random.Random) -> dict[str, str]:
    """Some bundles, each to whichever other slot has the fewest."""
    chosen = chance.sample(sorted(placement), moved)
    filled = Counter(slot for bundle, slot in placement.items() if bundle not in chosen)
    moves: dict[str, str] = {}
    # First those whose own slot has the most room, for there they may not stay.
    for bundle in sorted(chosen, key=lambda bundle: filled[placement[bundle]]):
        others = [slot for slot in slots if slot != placement[bundle]]
        fewest = min(filled[slot] for slot in others)
        moves[bundle] = chance.choice([slot for slot in others if filled[slot] == fewest])
        filled[moves[bundle]] += 1
    return moves


def _spread(placement: Mapping[str, str], slots: Sequence[str]) -> int:
    filled = Counter(placement.values())
    return max(filled[slot] for slot in slots) - min(filled[slot] for slot in slots)
