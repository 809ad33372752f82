"""Pairs of allocation and mapping that paper [2] has."""

from __future__ import annotations

from scheduler.pairs import Pair

PUBLISHED_PAIRS: tuple[Pair, ...] = (("LSA", "DSM"), ("LSA", "RSM"), ("MBA", "DSM"), ("MBA", "RSM"), ("MBA", "SAM"))
BASELINE: Pair = ("LSA", "RSM")  # the pair that the paper compares its own with
