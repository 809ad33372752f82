"""Pairs of allocation and mapping: all of them, the quick ones and the default.

They follow from the two registries (`allocation.registry`, `mapping.registry`); nothing else names an algorithm.
"""

from __future__ import annotations

from itertools import product

from .allocation.allocation_registry import ALLOCATIONS
from .mapping.mapping_registry import MAPPINGS

Pair = tuple[str, str]  # names of an allocation and of a mapping

PAIRS: tuple[Pair, ...] = tuple(product(ALLOCATIONS, MAPPINGS))
QUICK_PAIRS: tuple[Pair, ...] = tuple(pair for pair in PAIRS if MAPPINGS[pair[1]].quick)
MODEL_BASED: Pair = ("MBA", "SAM")  # paper [2]'s own pair: the default


def keeps_together(pair: Pair) -> bool:
    """True if all threads of a bundle are on one slot: bundles are made, and the mapping keeps them whole."""
    return ALLOCATIONS[pair[0]].bundles and MAPPINGS[pair[1]].keeps_together


def quick_pair(pair: Pair) -> Pair:
    """This pair if it is quick, else the quick one of the same allocation that never takes fewer slots."""
    return pair[0], MAPPINGS[pair[1]].bounded_by or pair[1]


def about(pair: Pair) -> str:
    """A description of the pair in a few words."""
    return f"{ALLOCATIONS[pair[0]].about}; {MAPPINGS[pair[1]].about}"


def key_of(pair: Pair) -> str:
    """The pair in addresses, forms and commands: ``MBA-SAM``."""
    return "-".join(pair)


def pair_of(key: str) -> Pair | None:
    """The pair of such a key; None where there is none."""
    return next((pair for pair in PAIRS if key_of(pair) == key), None)
