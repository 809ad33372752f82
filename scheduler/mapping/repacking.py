"""Repacking: slots of a packing, all or a few at a time, into one less, by CP-SAT."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ortools.sat.python import cp_model

from scheduler.model.allocated import Bundle

from .effort import Effort
from .shapes import CAPACITY, Bins, Pattern, Shapes

GROUP = 8  # slots that are packed anew together
ONCE = 0.02  # of the solver's seconds for one group


def pack(
    kinds: Sequence[Bundle], slots: int, *, effort: Effort, at_most: float = float("inf")
) -> tuple[Bins | None, bool]:
    """A packing into so many slots, or None; and True if it is proved that there is none.

    Shares are rounded down, so that whatever fits still fits: if no packing is found, there is none. A packing that
    fits by rounded shares alone proves nothing.

    Parameters
    ----------
    at_most : float
        The bound within ``effort``, in the solver's deterministic seconds.
    """
    shapes, model = Shapes.of(kinds), cp_model.CpModel()
    within = [
        [model.new_int_var(0, shapes.most(shape), f"shape {shape} on {slot}") for slot in range(slots)]
        for shape in range(len(shapes))]
    for count, numbers in zip(shapes.counts, within, strict=True):
        model.add(sum(numbers) == count)
    loads = []
    for slot in range(slots):
        for sizes in (shapes.memory, shapes.cpu):
            load = sum(size * numbers[slot] for size, numbers in zip(sizes, within, strict=True))
            model.add(load <= CAPACITY)
        loads.append(load)
    for first, second in pairwise(loads):
        model.add(first >= second)  # slots are alike: one order of them is enough
    solver, status = effort.solve(model, at_most=at_most)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    patterns: dict[Pattern, int] = {}
    for slot in range(slots):
        pattern = tuple(solver.value(numbers[slot]) for numbers in within)
        patterns[pattern] = patterns.get(pattern, 0) + 1
    return shapes.bins_of(patterns, kinds), False


def repacked(packed: Bins, least: int, *, effort: Effort) -> Bins:
    """A packing into fewer slots, as far as groups of them fit one less; the slots with most room first.

    Parameters
    ----------
    packed : bins
        Of bundles of count 1.
    """
    while len(packed) > least and effort.left > 0:
        fewer = _one_less(packed, effort)
        if fewer is None:
            break
        packed = fewer
    return packed


def _one_less(packed: Bins, effort: Effort) -> Bins | None:
    """The packing with one slot less, by the first group for which that is found."""
    roomiest = sorted(packed, key=lambda bundles: sum(bundle.cpu + bundle.memory for bundle in bundles))
    for begin in range(0, len(roomiest), max(1, GROUP // 2)):
        group = roomiest[begin : begin + GROUP]
        if effort.left <= 0:
            break
        units = [unit for bundles in group for unit in bundles]
        if max(sum(unit.cpu for unit in units), sum(unit.memory for unit in units)) > len(group) - 1:
            continue
        fewer, _ = pack(units, len(group) - 1, effort=effort, at_most=ONCE)
        if fewer is not None:
            return roomiest[:begin] + fewer + roomiest[begin + GROUP :]
    return None
