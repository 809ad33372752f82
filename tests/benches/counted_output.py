"""What an output has that counts events by key, held against what it has where nobody disturbs it. Pure.

Event number *n* is of key *n* modulo the number of keys, so the *c*-th row of key *k* is that of event *k* + (*c* - 1)
times the number of keys, and says *c*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


class DisturbedOutput(Exception):
    """A row is missing, doubled or of another count, or out of its key's order."""


@dataclass(frozen=True, slots=True)
class CountedBlock:
    """A block of the output: when it was written (ms since the epoch), and by row its event's number, the count that it
    says, and its age then (ms)."""

    written_ms: int
    numbers: np.ndarray
    counts: np.ndarray
    ages_ms: np.ndarray

    @classmethod
    def of(cls, written_ms: int, batches: Iterable[Any]) -> CountedBlock:
        """A block as it is in a channel."""
        columns = [[batch.column(name).to_numpy() for name in ("_seq", "count", "_born")] for batch in batches]
        numbers, counts, born_ms = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return cls(written_ms, numbers, counts, written_ms - born_ms)


def check_counts(numbers: np.ndarray, counts: np.ndarray, keys: int) -> int:
    """Check all rows of an output in their order; how many rows the key has that has fewest.

    Raises
    ------
    DisturbedOutput
        The rows of a key are not those of an undisturbed run.

    Examples
    --------
    >>> check_counts(np.array([0, 2, 1, 4]), np.array([1, 2, 1, 3]), keys=2)
    1
    """
    order = np.argsort(numbers % keys, kind="stable")
    numbers, counts = numbers[order], counts[order]
    of_key = numbers % keys
    sizes = np.bincount(of_key, minlength=keys)
    places = np.arange(len(numbers)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    wrong = np.flatnonzero((counts != places) | (numbers != of_key + keys * (places - 1)))
    if len(wrong):
        row = wrong[0]
        key, place = of_key[row], places[row]
        raise DisturbedOutput(
            f"row {place} of key {key} is of event {numbers[row]} and says {counts[row]}: expected were event "
            f"{key + keys * (place - 1)} and {place}")
    return int(sizes.min())
