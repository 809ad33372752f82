"""Loads of keys: how the events of a task that is divided by key spread over the ring, as its writers count them.

Writers count by stretch, 256 key groups each, and find the most frequent keys by the space-saving algorithm (Metwally
and others, 2005; ``KeyCounts.java``). Keys that are not frequent are spread evenly by their hash: a cut within a
stretch is off by a part of one 256th of the load. Keys that are frequent are known with their group. So ranges can be
cut to less than 1% of the load, with 2 kB for each writer instead of 400.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from .ring import KEY_GROUPS, KeyRange

STRETCHES = 256
STRETCH = KEY_GROUPS // STRETCHES  # in key groups
KeyRanges = tuple[tuple[int, int], ...]  # of a bundle: the first key group of each range, and how many it has
MEMORY_MS = 300_000.0  # after which an event counts 1/e, as in Java
MOST_FREQUENT, LONGEST_TEXT = 16, 64  # keys of a writer, and characters of each
MOST = 1e15  # of a count, or of a moment in ms
LEAST_EVENTS = 1_000.0  # by which loads are known to a few hundredths
NEAR = 0.1  # how far a bundle's part of the load may be from what it is to have, before its range is cut anew


@dataclass(frozen=True, slots=True)
class FrequentKey:
    """A key by its text (its first 64 characters), its group, and how many events it had at least."""

    text: str
    group: int
    events: float


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The counts of one writer up to a moment of its clock; older events count less."""

    at_ms: int
    by_stretch: tuple[float, ...]
    frequent: tuple[FrequentKey, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> KeyCounts:
        """The counts from a writer's report.

        Raises
        ------
        ValueError, KeyError, TypeError, OverflowError
            It is no such report.
        """
        by_stretch = tuple(float(count) for count in document["by_stretch"])
        frequent = tuple(
            FrequentKey(str(text)[:LONGEST_TEXT], int(group), float(events))
            for text, group, events in document["frequent"][:MOST_FREQUENT])
        at_ms = int(document["at_ms"])
        counts = (at_ms, *by_stretch, *(key.events for key in frequent))
        if len(by_stretch) != STRETCHES or not all(0 <= count <= MOST for count in counts) or not all(
                0 <= key.group < KEY_GROUPS for key in frequent):
            raise ValueError(f"counts of keys are of {STRETCHES} stretches and of groups below {KEY_GROUPS}")
        return cls(at_ms, by_stretch, frequent)


@dataclass(frozen=True)
class KeyLoads:
    """Distribution of a task's events over the ring: of each stretch, and of frequent keys, which are in them too."""

    by_stretch: tuple[float, ...]
    frequent: tuple[FrequentKey, ...] = ()  # the most frequent first

    @classmethod
    def of_writers(cls, counts: Iterable[KeyCounts]) -> KeyLoads | None:
        """The counts of several writers of a stream, all as of the newest; None where they are too few."""
        writers = list(counts)
        newest_ms = max((writer.at_ms for writer in writers), default=0)
        stretches, keys = [0.0] * STRETCHES, Counter[tuple[str, int]]()
        for key_counts in writers:
            part = math.exp((key_counts.at_ms - newest_ms) / MEMORY_MS)
            stretches = [total + part * count for total, count in zip(stretches, key_counts.by_stretch, strict=True)]
            for key in key_counts.frequent:
                keys[key.text, key.group] += part * key.events
        frequent = tuple(FrequentKey(text, group, events) for (text, group), events in keys.most_common())
        loads = cls(tuple(stretches), frequent)
        return loads if loads.events >= LEAST_EVENTS else None

    @property
    def events(self) -> float:
        """All that were counted."""
        return self._summed[-1]

    def share(self, key_range: KeyRange) -> float:
        """The part of the events that a range has, from 0 to 1."""
        last = key_range.token + key_range.size
        over = self._up_to(last - KEY_GROUPS) if last > KEY_GROUPS else 0.0
        return (self._up_to(min(last, KEY_GROUPS)) - self._up_to(key_range.token) + over) / self.events

    def share_of(self, key: FrequentKey) -> float:
        """The part of the events that a frequent key has at least, from 0 to 1."""
        return key.events / self.events

    def sizes(self, shares: Sequence[float]) -> tuple[int, ...]:
        """The sizes in groups of consecutive ranges from 0 on that have these parts of the events.

        Where a key has more than its range is to have, the others share the rest.
        """
        sizes: list[int] = []
        first = 0
        for index, share in enumerate(shares[:-1]):
            remaining_events = self.events - self._up_to(first)
            wanted_events, begun = remaining_events * share / sum(shares[index:]), self._up_to(first)
            most = KEY_GROUPS - first - (len(shares) - index - 1)  # one is left for each behind it

            def load(size: int, first: int = first, begun: float = begun) -> float:
                return self._up_to(first + size) - begun

            sizes.append(nearest_cut(load, most + 1, wanted_events))
            first += sizes[-1]
        return (*sizes, KEY_GROUPS - first)

    def _up_to(self, group: int) -> float:
        """The events of all groups before one."""
        stretch, inside = divmod(group, STRETCH)
        evenly = inside / STRETCH * self._unnamed[stretch] if inside else 0.0
        return self._summed[stretch] + evenly + sum(
            key.events for key in self.frequent if stretch * STRETCH <= key.group < group)

    @cached_property
    def _summed(self) -> tuple[float, ...]:
        """The events of all stretches before each, and of all."""
        named = self._named
        return (0.0, *accumulate(max(count, named[index]) for index, count in enumerate(self.by_stretch)))

    @cached_property
    def _named(self) -> Counter[int]:
        """The events of frequent keys, by stretch."""
        named: Counter[int] = Counter()
        for key in self.frequent:
            named[key.group // STRETCH] += key.events
        return named

    @cached_property
    def _unnamed(self) -> tuple[float, ...]:
        """The events of keys that are not frequent, by stretch."""
        return tuple(max(0.0, count - self._named[index]) for index, count in enumerate(self.by_stretch))


@dataclass(frozen=True, slots=True)
class DividedKeys:
    """The ranges of a running task's keys, and the distribution of its events over them (None: that is not known).

    ``ranges`` are those of its bundles, by slot, where each slot has one bundle and none is changing hands.
    """

    loads: KeyLoads | None
    ranges: Mapping[str, KeyRanges]


def nearest_cut(load: Callable[[int], float], size: int, wanted_events: float) -> int:
    """The number of groups of a row that have about so much to do: one at least, and one is left.

    Parameters
    ----------
    load : callable
        The load of the first so many; it never falls.
    """
    groups = bisect_left(range(size), wanted_events, key=load)
    nearer = min((groups - 1, groups), key=lambda count: abs(load(max(0, count)) - wanted_events))
    return max(1, min(size - 1, nearer))
