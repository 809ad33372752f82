"""Shapes: what bundles take of a slot, in whole numbers, each with how many bundles take so much.

To a packing bundles of equal CPU and memory are one shape, of whatever task. LSA's threads are thousands and of few
shapes, so a question about shapes is far smaller than one about bundles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor

from scheduler.model.allocated import Bundle
from scheduler.model.resources import TOLERANCE

UNIT = 1_000_000_000  # of a slot: whole numbers, and what they leave out is within the tolerance
CAPACITY = UNIT + round(TOLERANCE * UNIT)  # of a slot, with what counts as rounding
Bins = list[list[Bundle]]  # bundles of count 1 that share a slot
Pattern = tuple[int, ...]  # how many of each shape share a slot


def units_of(share: float) -> int:
    """A share of a slot, rounded down: what does not fit then does not fit at all."""
    return floor(share * UNIT)


def fit(bundles: Sequence[Bundle]) -> bool:
    """True if bundles of count 1 fit a slot together, by the shares as they are."""
    return max(sum(bundle.cpu for bundle in bundles), sum(bundle.memory for bundle in bundles)) <= 1.0 + TOLERANCE


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes with their counts.

    ``cpu`` and ``memory`` are in units, rounded down: bundles that fit a slot together have a pattern within
    `CAPACITY`.
    """

    cpu: tuple[int, ...]
    memory: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, kinds: Iterable[Bundle]) -> Shapes:
        """The shapes of bundles of any counts, the largest first."""
        counts: dict[tuple[int, int], int] = {}
        for kind in kinds:
            shape = _shape(kind)
            counts[shape] = counts.get(shape, 0) + kind.count
        shapes = sorted(counts, key=lambda shape: (-max(shape), shape))
        return cls(
            tuple(cpu for cpu, _ in shapes), tuple(memory for _, memory in shapes),
            tuple(counts[shape] for shape in shapes))

    def __len__(self) -> int:
        return len(self.counts)

    def includes(self, kind: Bundle) -> bool:
        """True if a bundle's shape is one of these."""
        return _shape(kind) in set(zip(self.cpu, self.memory, strict=True))

    def commonest(self, number: int) -> Shapes:
        """The commonest shapes: those with most bundles."""
        chosen = sorted(sorted(range(len(self)), key=lambda shape: -self.counts[shape])[:number])
        return Shapes(*(tuple(values[shape] for shape in chosen) for values in (self.cpu, self.memory, self.counts)))

    def most(self, shape: int) -> int:
        """The largest number of a shape in one slot, of those that there are."""
        largest = max(self.cpu[shape], self.memory[shape])
        return min(self.counts[shape], CAPACITY // largest) if largest else self.counts[shape]

    def patterns_of(self, bins: Bins) -> dict[Pattern, int]:
        """The patterns of some bins, each with how many bins have it."""
        number = {shape: index for index, shape in enumerate(zip(self.cpu, self.memory, strict=True))}
        patterns: dict[Pattern, int] = {}
        for bundles in bins:
            row = [0] * len(self)
            for bundle in bundles:
                row[number[_shape(bundle)]] += 1
            patterns[tuple(row)] = patterns.get(tuple(row), 0) + 1
        return patterns

    def bins_of(self, patterns: dict[Pattern, int], kinds: Sequence[Bundle]) -> Bins | None:
        """Bins of these patterns that hold all bundles of these kinds; None if they do not fit by their unrounded use.

        Patterns may have room for more bundles. Bundles come in the order of their kinds, so that those of a task are
        near each other.
        """
        waiting: dict[tuple[int, int], list[list]] = {}
        for kind in kinds:
            waiting.setdefault(_shape(kind), []).append([kind.count, replace(kind, count=1)])
        queues = [waiting[shape][::-1] for shape in zip(self.cpu, self.memory, strict=True)]
        bins: Bins = []
        for pattern, times in patterns.items():
            numbered_shapes = [(shape, number) for shape, number in enumerate(pattern) if number]
            for _ in range(times):
                bins.append([unit for shape, number in numbered_shapes for unit in _next(queues[shape], number)])
        bins = [bundles for bundles in bins if bundles]
        return None if any(queues) or not all(map(fit, bins)) else bins


def _next(queue: list[list], number: int) -> list[Bundle]:
    """The next so many units of a queue of counts and units, or as many as there are."""
    units: list[Bundle] = []
    while queue and len(units) < number:
        count, unit = queue[-1]
        taken = min(count, number - len(units))
        units.extend([unit] * taken)
        queue[-1][0] -= taken
        if count == taken:
            queue.pop()
    return units


def _shape(bundle: Bundle) -> tuple[int, int]:
    return units_of(bundle.cpu), units_of(bundle.memory)
