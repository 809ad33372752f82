"""Packing by patterns (Gilmore and Gomory's model): a linear program over what can share a slot, by column generation.

A pattern says how many bundles of each shape share a slot. The fewest slots are the fewest patterns that hold all
bundles. The linear program allows parts of patterns, and whole patterns nearly always reach its optimum, rounded up. It
begins with the patterns of a packing. Its dual values price patterns: as long as a pattern is worth more than a slot,
it is added.

**What is proved.** Any values from 0, divided by the greatest worth of a pattern, add up to a bound over all bundles
(Farley). Here the values are whole numbers near the dual ones, and CP-SAT bounds that greatest worth. So the rounding
of the linear program does not touch the proof.

References
----------
.. [1] Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961.
.. [2] Farley, "A note on bounding a class of linear programming problems, including cutting stock problems", 1990.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from ortools.sat.python import cp_model

from .effort import Effort
from .pattern_program import PatternProgram
from .shapes import CAPACITY, Pattern, Shapes

WORTH = 10_000_000  # dual values are counted in parts of a slot's
ROUNDING = 1e-6  # of the linear program
MOST_ITERATIONS = 400  # of column generation
MIXES = ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (3.0, 1.0), (1.0, 3.0))  # of CPU and memory, by which greedy pricing goes
ONCE = 0.25  # of what is left, for one question for whole patterns


@dataclass(frozen=True, slots=True)
class PackingPatterns:
    """The patterns known so far in their linear program, and a number of slots that no packing goes below."""

    shapes: Shapes
    program: PatternProgram
    least: int


def generate(shapes: Shapes, patterns: Sequence[Pattern], least: int, *, effort: Effort) -> PackingPatterns:
    """Patterns with which the linear program is solved, or as near to that as the effort goes.

    Parameters
    ----------
    least : int
        A number of slots that no packing goes below; where the linear program needs no more it is done.
    """
    program = PatternProgram(shapes.counts, patterns)
    pattern_set = set(patterns)
    for _ in range(MOST_ITERATIONS):
        duals, optimum = program.solve(effort)
        if ceil(optimum - ROUNDING) <= least or effort.left <= 0:
            break
        values = [max(0, floor(dual * WORTH)) for dual in duals]
        priced = {pattern for pattern in greedy_patterns(shapes, values, shapes.counts)
                  if worth(pattern, values) > WORTH} - pattern_set
        if not priced:
            pattern, most = _dearest(shapes, values, effort)
            total = sum(value * count for value, count in zip(values, shapes.counts, strict=True))
            least = max(least, -(-total // max(most, 1)))
            if pattern is None or pattern in pattern_set or worth(pattern, values) <= WORTH * (1 + ROUNDING):
                break
            priced = {pattern}
        for pattern in sorted(priced):
            program.add(pattern)
        pattern_set |= priced
    else:
        program.solve(effort)
    return PackingPatterns(shapes, program, least)


def whole_patterns(columns: PackingPatterns, slots: int, *, effort: Effort) -> dict[Pattern, int] | None:
    """Patterns for at most so many slots that hold all, of those that are known; None where none are found."""
    patterns, model = columns.program.patterns, cp_model.CpModel()
    columns.program.require(columns.shapes.counts)
    columns.program.solve(effort)
    times = [model.new_int_var(0, slots, f"pattern {number}") for number in range(len(patterns))]
    for shape, count in enumerate(columns.shapes.counts):
        model.add(sum(
            pattern[shape] * used for pattern, used in zip(patterns, times, strict=True) if pattern[shape]
        ) >= count)
    model.add(sum(times) <= slots)
    for used, part in zip(times, columns.program.parts(), strict=True):
        model.add_hint(used, floor(part + ROUNDING))
    solver, status = effort.solve(model, at_most=ONCE * effort.left)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {pattern: number for pattern, used in zip(patterns, times, strict=True)
            if (number := solver.value(used))}


def greedy_patterns(shapes: Shapes, values: Sequence[int], counts: Sequence[int]) -> set[Pattern]:
    """Patterns that hold much of value: shapes by their value for what they take, as long as they fit."""
    patterns = set()
    for cpu_weight, memory_weight in MIXES:
        taken = [cpu_weight * cpu + memory_weight * memory + 1
                 for cpu, memory in zip(shapes.cpu, shapes.memory, strict=True)]
        order = sorted(range(len(shapes)), key=lambda shape: (-values[shape] / taken[shape], shape))
        patterns.add(filled(shapes, [shape for shape in order if values[shape] > 0], counts))
    return patterns


def filled(shapes: Shapes, order: Sequence[int], counts: Sequence[int]) -> Pattern:
    """The pattern that takes as many of each shape, in order, as there are and still fit."""
    cpu_left = memory_left = CAPACITY
    pattern = [0] * len(shapes)
    for shape in order:
        cpu, memory, number = shapes.cpu[shape], shapes.memory[shape], counts[shape]
        number = min(number, cpu_left // cpu) if cpu else number
        number = min(number, memory_left // memory) if memory else number
        pattern[shape] = number
        cpu_left -= number * cpu
        memory_left -= number * memory
    return tuple(pattern)


def worth(pattern: Pattern, values: Sequence[int]) -> int:
    """The value of the bundles of a pattern together."""
    return sum(number * value for number, value in zip(pattern, values, strict=True) if number)


def _dearest(shapes: Shapes, values: Sequence[int], effort: Effort) -> tuple[Pattern | None, int]:
    """The best pattern that was found, and an upper bound on the worth of any."""
    model = cp_model.CpModel()
    valued = [shape for shape, value in enumerate(values) if value]
    numbers = {shape: model.new_int_var(0, shapes.most(shape), f"shape {shape}") for shape in valued}
    for sizes in (shapes.cpu, shapes.memory):
        model.add(sum(sizes[shape] * number for shape, number in numbers.items()) <= CAPACITY)
    model.maximize(sum(values[shape] * number for shape, number in numbers.items()))
    solver, status = effort.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, sum(values[shape] * shapes.most(shape) for shape in valued)
    most = floor(solver.best_objective_bound + 0.5)  # a whole number, in floating point
    dearest = {shape: solver.value(number) for shape, number in numbers.items()}
    return tuple(dearest.get(shape, 0) for shape in range(len(shapes))), most
