"""Diving: whole patterns from the parts of a linear program, a few fixed at a time, the rest priced anew.

Patterns that the optimum uses whole are fixed; if there are none, the part nearest to a whole one. The rest is a
smaller program with patterns of its own. At each step the remaining slots are also filled one by one, and the best of
all these packings counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import floor

from .effort import Effort
from .filling import filled_slots
from .packing_patterns import ROUNDING, WORTH, PackingPatterns, greedy_patterns, worth
from .shapes import Pattern, Shapes

ITERATIONS = 8  # of pricing after each fixing
PLACED = 5e-6  # what filling in a bundle is charged, in the solver's seconds
WHOLE = 0.75  # parts from here on count as whole


def dive(columns: PackingPatterns, *, effort: Effort) -> dict[Pattern, int]:
    """A packing near the optimum of the linear program."""
    shapes, remaining = columns.shapes, list(columns.shapes.counts)
    fixed: Counter[Pattern] = Counter()
    packings: list[Counter[Pattern]] = []
    while not packings or (any(remaining) and effort.left > 0 and packings[-1].total() > columns.least):
        columns.program.require(remaining)
        _price(columns, remaining, effort)
        for pattern, times in _whole_parts(columns, remaining):
            fixed[pattern] += times
            remaining = [max(0, count - times * number) for count, number in zip(remaining, pattern, strict=True)]
        packings.append(_completed(fixed, shapes, remaining, effort))
    return min(packings, key=Counter.total)


def _completed(
    fixed: Counter[Pattern], shapes: Shapes, remaining: Sequence[int], effort: Effort
) -> Counter[Pattern]:
    """The fixed patterns, and the rest filled slot by slot."""
    fillings = [Counter(patterns) for patterns in filled_slots(shapes, remaining)]
    effort.charge(PLACED * sum(sum(pattern) for patterns in fillings for pattern in patterns))
    return fixed + min(fillings, key=Counter.total)


def _price(columns: PackingPatterns, remaining: Sequence[int], effort: Effort) -> None:
    """Add patterns for what remains, as long as greedy ones are worth more than a slot."""
    program = columns.program
    pattern_set = set(program.patterns)
    for _ in range(ITERATIONS):
        duals, _ = program.solve(effort)
        values = [max(0, floor(dual * WORTH)) for dual in duals]
        priced = {
            pattern for pattern in greedy_patterns(columns.shapes, values, remaining)
            if worth(pattern, values) > WORTH * (1 + ROUNDING)} - pattern_set
        for pattern in sorted(priced):
            program.add(pattern)
        pattern_set |= priced
        if not priced:
            return
    program.solve(effort)


def _whole_parts(columns: PackingPatterns, remaining: Sequence[int]) -> list[tuple[Pattern, int]]:
    """The patterns to fix: all that is whole, of what remains; else the largest part of a pattern, once."""
    parts = columns.program.parts()
    remaining_counts, fixed = list(remaining), []
    for part, pattern in sorted(zip(parts, columns.program.patterns, strict=True), key=lambda it: (-it[0] % 1, it)):
        whole = floor(part + 1 - WHOLE)
        useful = min(
            (count // number for count, number in zip(remaining_counts, pattern, strict=True) if number), default=0)
        if times := min(whole, useful):
            fixed.append((pattern, times))
            remaining_counts = [count - times * number for count, number in zip(remaining_counts, pattern, strict=True)]
    if fixed:
        return fixed
    _, pattern = max(zip(parts, columns.program.patterns, strict=True))
    return [(pattern, 1)]
