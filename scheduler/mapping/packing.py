"""Packing bundles into the fewest slots (vector packing): best fit by falling size, then CP-SAT for one slot less."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor

from ortools.sat.python import cp_model

from scheduler.model.allocation import Bundle
from scheduler.model.resources import TOLERANCE

from .candidates import Candidates

Bins = list[list[Bundle]]  # bundles of count 1 that share a slot
UNIT = 1_000_000_000  # of a slot: CP-SAT counts in whole numbers, and what they leave out is within the tolerance
LARGEST = 20_000  # variables (kinds of bundle times slots); beyond it best fit alone packs
HALF = 0.5 + TOLERANCE  # of a slot: no two that are larger share one


def fewest_slots(kinds: Sequence[Bundle], *, effort: Effort) -> tuple[Bins, int]:
    """Pack bundles of any counts, none of them full, with what effort there is.

    Returns
    -------
    tuple of bins and int
        The packing, no worse than best fit in the given order; and a number of slots that none goes below.
    """
    packed = min((best_fit(kinds), best_fit(sorted(kinds, key=_falling))), key=len)
    least = max(
        ceil(sum(kind.cpu * kind.count for kind in kinds) - TOLERANCE),
        ceil(sum(kind.memory * kind.count for kind in kinds) - TOLERANCE),
        sum(kind.count for kind in kinds if kind.cpu > HALF), sum(kind.count for kind in kinds if kind.memory > HALF),
        1 if kinds else 0,
    )
    while len(packed) > least and len(kinds) * len(packed) <= LARGEST and effort.left > 0:
        fewer, bound = _pack(kinds, len(packed) - 1, effort)
        least = max(least, bound)
        if fewer is None:
            break
        packed = fewer
    return packed, least


def best_fit(kinds: Sequence[Bundle]) -> Bins:
    """Each bundle, in order, into the slot with the least free CPU and memory of those that hold it: as SAM does."""
    slots, bins = Candidates(), []
    for bundle in kinds:
        number = -1
        for _ in range(bundle.count):
            # The slot that took its like before is the fullest again, as long as it has enough.
            if number < 0 or not slots.holds(number, bundle.cpu, bundle.memory):
                _, number = slots.cheapest(bundle.cpu, bundle.memory)
            if number < 0:
                number = slots.add(1.0, 1.0, 1.0)
                bins.append([])
            slots.take(number, bundle.cpu, bundle.memory)
            bins[number].append(bundle)
    return bins


class Effort:
    """What all calls of the solver for one question may take together, in its own measure of time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent = 0.0

    @property
    def left(self) -> float:
        """What a further call may take; none is worth making where it is 0."""
        return max(0.0, self.seconds - self.spent)

    def solve(self, model: cp_model.CpModel) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
        """Solve with what is left: the answer depends on the question alone, for there is one worker and one seed."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = self.left
        status = solver.solve(model)
        self.spent += solver.deterministic_time
        return solver, status


def units_of(share: float) -> int:
    """A share of a slot, rounded down: what does not fit then does not fit at all."""
    return floor(share * UNIT)


def fit(bundles: Sequence[Bundle]) -> bool:
    """Whether bundles of count 1 fit a slot together, by the shares as they are."""
    return max(sum(bundle.cpu for bundle in bundles), sum(bundle.memory for bundle in bundles)) <= 1.0 + TOLERANCE


def _pack(kinds: Sequence[Bundle], slots: int, effort: Effort) -> tuple[Bins | None, int]:
    """A packing into so many slots, or None; and, where it is proved that there is none, one more than that.

    With shares rounded down all that fits still does: where there is no packing then, there is none. Where one is found
    that does not fit by the shares as they are, nothing is known.
    """
    model = cp_model.CpModel()
    within = [
        [model.new_int_var(0, kind.count, f"kind{k} on {slot}") for slot in range(slots)]
        for k, kind in enumerate(kinds)
    ]
    for kind, counts in zip(kinds, within, strict=True):
        model.add(sum(counts) == kind.count)
    loads = []
    for slot in range(slots):
        cpu = sum(units_of(kind.cpu) * counts[slot] for kind, counts in zip(kinds, within, strict=True))
        model.add(cpu <= UNIT)
        model.add(sum(units_of(kind.memory) * counts[slot] for kind, counts in zip(kinds, within, strict=True)) <= UNIT)
        loads.append(cpu)
    for first, second in pairwise(loads):
        model.add(first >= second)  # slots are alike: one order of them is enough
    solver, status = effort.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, slots + 1 if status == cp_model.INFEASIBLE else 0
    bins = [
        [kind for kind, counts in zip(kinds, within, strict=True) for _ in range(solver.value(counts[slot]))]
        for slot in range(slots)
    ]
    return [packed for packed in bins if packed] if all(map(fit, bins)) else None, 0


def _falling(bundle: Bundle) -> float:
    return -max(bundle.cpu, bundle.memory)
