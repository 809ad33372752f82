"""The intervals of batches that hold limits at the least CPU: cutting planes (Kelley), and branch and bound.

CPU is convex in the intervals and, as long as it is known which readers follow their writers, every limit is linear in
them. So a few tangents describe the CPU of each query where it matters, and what is left is a linear program. What is
not convex is that a reader waits for nothing where it follows its writer, and for half of its interval as soon as that
is longer: the program begins with the line between the two, and both are tried of a reader for which that is too little
(Land and Doig, "An Automatic Method of Solving Discrete Programming Problems", 1960). A query that no limit joins to
another one needs no program: its interval is the longest that its limits allow.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Literal

from ortools.linear_solver import pywraplp

from .triggers import BatchPlan, Effective, Intervals, Unmet, latency_s, wait_s

ITERATIONS = 60
NOTHING = 1e-9  # a coefficient that is less breaks the solver off: it scales by it
TOLERANCE = 1e-4  # of the CPU, between what is known to be needed and what the intervals take
MOST_BRANCHES = 40  # programs that are solved for who follows whom; the best one so far counts then
IRREGULAR = 0.95  # of the interval of a query that does not follow, so that what is rounded does not count
EXACT = 1e-6  # of a limit, or of an interval: less than that is no difference

Relation = Literal["follows", "apart"]
Relations = Mapping[str, Relation]  # by reader of one stream: what it is to its writer, where that is decided


def choose_intervals(plan: BatchPlan) -> Intervals:
    """The intervals that meet all limits at the least CPU, or come nearest to a limit that cannot be met.

    If the solver fails, as with figures that are many powers of ten apart, they are the shortest intervals.
    """
    too_slow = frozenset(query for query, cost in plan.costs.items() if not cost.least_s <= plan.longest_s(query))
    if not plan.capacity and (not plan.limits or _is_alone(plan)):
        interval_s = {query: _longest_s(plan, query, too_slow) for query in plan.costs}
        choice = _Choice(interval_s, _over_s(plan, interval_s), (), 0.0, 0.0)
    else:
        choice = _Search(plan, too_slow).best()
    unmet = tuple(
        Unmet(limit, limit.limit_s + over_s) for limit, over_s in zip(plan.limits, choice.over_s, strict=True)
        if over_s > EXACT * max(1.0, limit.limit_s))
    cores = sum(cost.cores(choice.interval_s[query]) for query, cost in plan.costs.items())
    return Intervals(choice.interval_s, cores, unmet, choice.full, tuple(too_slow))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Intervals, what each limit lacks with them in seconds, and the slots whose CPU some limit or event lacks.

    ``bound`` is what the program says that they take, and ``worth`` what they do take: CPU, and all that lacks at its
    price. No intervals with these relations take less than ``bound``.
    """

    interval_s: Mapping[str, float]
    over_s: Sequence[float]
    full: tuple[str, ...]
    bound: float
    worth: float


class _Search:
    """Branch and bound over which readers follow their writers."""

    def __init__(self, plan: BatchPlan, too_slow: frozenset[str]) -> None:
        self._plan, self._too_slow = plan, too_slow
        self._price = 1e3 * (1.0 + sum(cost.batch_cpu_s for cost in plan.costs.values()) / plan.smallest_s)

    def best(self) -> _Choice:
        """The cheapest of all choices that were tried."""
        numbers, root = count(), self._solved({})
        if root is None:
            return self._shortest()
        best, waiting = root, [(root.bound, next(numbers), root, dict[str, Relation]())]
        while waiting and next(numbers) < MOST_BRANCHES:
            bound, _, choice, relations = heapq.heappop(waiting)
            if bound >= best.worth - 1e-3 * sum(self._cpu(choice)) - EXACT * self._price:
                break
            reader = self._torn(choice, relations)
            if reader is None:
                continue
            for relation in ("follows", "apart"):
                decided: dict[str, Relation] = {**relations, reader: relation}
                child = self._solved(decided)
                if child is not None:
                    best = min(best, child, key=lambda choice: choice.worth)
                    heapq.heappush(waiting, (child.bound, next(numbers), child, decided))
        return best

    def _solved(self, relations: Relations) -> _Choice | None:
        program = _Program(self._plan, self._too_slow, relations, self._price)
        if not program.solve():
            return None
        over_s = _over_s(self._plan, program.interval_s)
        more_s = sum(limit.weight * (over - late) for limit, over, late in zip(
            self._plan.limits, over_s, program.late_s, strict=True))
        worth = program.taken + sum(self._cpu(program)) - program.cpu + self._price * more_s
        return _Choice(program.interval_s, over_s, program.full, program.taken, worth)

    def _shortest(self) -> _Choice:
        interval_s = {query: _least_s(self._plan, query, self._too_slow) for query in self._plan.costs}
        return _Choice(interval_s, _over_s(self._plan, interval_s), (), 0.0, 0.0)

    def _cpu(self, choice: _Choice | _Program) -> Iterator[float]:
        return (cost.batch_cpu_s / choice.interval_s[query] for query, cost in self._plan.costs.items())

    def _torn(self, choice: _Choice, relations: Relations) -> str | None:
        """The reader that waits for most more than the program has it, of those on a path that is too slow by that."""
        effective = Effective(self._plan, choice.interval_s, early=EXACT)
        gaps = {}
        for limit, over_s in zip(self._plan.limits, choice.over_s, strict=True):
            if over_s <= EXACT * max(1.0, limit.limit_s):
                continue
            for writer, reader in pairwise(limit.path):
                if reader not in relations and not _is_several(self._plan, reader):
                    apart_s = max(0.0, choice.interval_s[reader] - choice.interval_s[writer])
                    gap_s = wait_s(self._plan, writer, reader, effective, share=limit.share) - limit.share * apart_s
                    gaps[reader] = max(gap_s, gaps.get(reader, EXACT))
        return max(gaps, key=lambda reader: (gaps[reader], reader)) if max(gaps.values(), default=0.0) > EXACT else None


class _Program:
    """The linear program over intervals T and the CPU of batches C, with tangents C >= c (2 t - T) / t² at points t.

    The time whose events a batch holds is a variable for each reader: at least its interval, and at least what that of
    each writer is. What a limit lacks is a variable of its own with a price above any CPU that could be saved, and what
    a slot lacks one with a price above that. So there is always a solution, and it says what cannot be met. A slot is
    full where a little more CPU would save a part of such a price: its dual value says so.
    """

    def __init__(self, plan: BatchPlan, too_slow: frozenset[str], relations: Relations, price: float) -> None:
        self._plan, self._relations, self._price = plan, relations, price
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        self._interval, self._cpu, self._longest = {}, {}, {}
        for query in plan.costs:
            self._interval[query] = solver.NumVar(_least_s(plan, query, too_slow), plan.longest_s(query), "")
            self._cpu[query] = solver.NumVar(0, solver.infinity(), "")
        self._add_readers()
        self._late = [solver.NumVar(0, solver.infinity(), "") for _ in plan.limits]
        self._lacking = {slot: solver.NumVar(0, solver.infinity(), "") for slot in plan.capacity}
        self._room: dict[str, pywraplp.Constraint] = {}
        self._add_limits()
        self._add_slots()
        late = sum(limit.weight * late for limit, late in zip(plan.limits, self._late, strict=True))
        solver.Minimize(sum(self._cpu.values()) + price * late + 1e3 * price * sum(self._lacking.values()))
        self.interval_s: dict[str, float] = {}
        self.late_s: list[float] = []
        self.full: tuple[str, ...] = ()
        self.taken = self.cpu = 0.0

    def _add_readers(self) -> None:
        solver, plan = self._solver, self._plan
        written = {query: [name for name in plan.reads.get(query, ()) if name in plan.costs] for query in plan.costs}
        for query, writers in written.items():
            self._longest[query] = solver.NumVar(0, solver.infinity(), "") if writers else self._interval[query]
        for query, writers in written.items():
            for writer in writers:
                self._at_least(0.0, {self._longest[query]: 1.0, self._longest[writer]: -1.0})
            if writers:
                self._at_least(0.0, {self._longest[query]: 1.0, self._interval[query]: -1.0})
                if self._relations.get(query) == "follows":
                    solver.Add(self._interval[query] <= self._gap(writers[0]))

    def _gap(self, writer: str) -> pywraplp.LinearExpr:
        """The least interval of blocks: nearer than batches where one holds a block more than another."""
        if self._relations.get(writer) != "apart":
            return 1.0 * self._interval[writer]
        more = max(self._plan.costs[writer].busy, NOTHING) * self._interval[self._plan.reads[writer][0]]
        return IRREGULAR * self._interval[writer] - more

    def _add_limits(self) -> None:
        waits: dict[tuple[str, str], pywraplp.Variable] = {}
        for limit, late in zip(self._plan.limits, self._late, strict=True):
            total, counted = limit.other_s, limit.counted
            if counted.waits and limit.path[0] not in counted.passed:
                total = total + self._interval[limit.path[0]] * limit.share
            for query in limit.path:
                if query not in counted.passed:
                    cost = self._plan.costs[query]
                    total = total + cost.batch_s + (cost.busy if cost.busy > NOTHING else 0.0) * self._longest[query]
            for writer, reader in pairwise(limit.path):
                if _is_several(self._plan, reader):
                    total = total + self._interval[reader]
                    continue
                if (writer, reader) not in waits:
                    waits[writer, reader] = self._wait(writer, reader)
                total = total + waits[writer, reader] * limit.share
            self._solver.Add(total <= limit.limit_s + late)

    def _wait(self, writer: str, reader: str) -> pywraplp.Variable:
        """The wait of a block for a reader's interval; for an undecided interval a lower bound: how much longer it
        is."""
        relation = self._relations.get(reader)
        if relation == "apart":
            return self._interval[reader]
        wait = self._solver.NumVar(0, 0 if relation == "follows" else self._solver.infinity(), "")
        if relation is None:
            self._at_least(0.0, {wait: 1.0, self._interval[reader]: -1.0, self._interval[writer]: 1.0})
        return wait

    def _add_slots(self) -> None:
        for slot, capacity in self._plan.capacity.items():
            here = [query for query in self._plan.costs if self._plan.slot_of.get(query) == slot]
            if not here:
                continue
            events = sum(cost.rate_per_s * cost.event_cpu_s for cost in map(self._plan.costs.__getitem__, here))
            batches = sum(self._cpu[query] for query in here)
            self._room[slot] = self._solver.Add(batches <= capacity - events + self._lacking[slot])

    def _tangent(self, query: str, at_s: float) -> None:
        cpu_s = self._plan.costs[query].batch_cpu_s
        if cpu_s <= NOTHING:
            return
        self._at_least(2 * cpu_s / at_s, {self._cpu[query]: 1.0, self._interval[query]: cpu_s / at_s**2})

    def _at_least(self, least: float, terms: Mapping[pywraplp.Variable, float]) -> None:
        """Constrain terms from below, in the solver's own form where there are many of them: to build expressions
        takes longer than to solve."""
        constraint = self._solver.Constraint(least, self._solver.infinity())
        for variable, factor in terms.items():
            constraint.SetCoefficient(variable, factor)

    def solve(self) -> bool:
        """True if there is a solution. Read it before adding constraints: the solver drops it then."""
        at_s = 1.0
        starts = []
        while at_s > self._plan.smallest_s:
            starts.append(at_s)
            at_s /= 4
        for query in self._interval:
            for start_s in (self._plan.smallest_s, *starts, self._plan.largest_s):
                self._tangent(query, start_s)
        for _ in range(ITERATIONS):
            if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
                break
            if not self._sharpen(self._read()):
                break
        return bool(self.late_s or self.interval_s)

    def _read(self) -> dict[str, float]:
        """Keep the solution; the CPU that it has by query."""
        self.interval_s = {query: variable.solution_value() for query, variable in self._interval.items()}
        self.late_s = [variable.solution_value() for variable in self._late]
        self.full = tuple(slot for slot, room in self._room.items() if -room.dual_value() > 1e-6 * self._price)
        cores = {query: variable.solution_value() for query, variable in self._cpu.items()}
        self.taken, self.cpu = self._solver.Objective().Value(), sum(cores.values())
        return cores

    def _sharpen(self, solved: Mapping[str, float]) -> bool:
        """Add tangents where the CPU is underestimated; whether there was such a place."""
        needed = {query: self._plan.costs[query].batch_cpu_s / at_s for query, at_s in self.interval_s.items()}
        bound = TOLERANCE * sum(needed.values()) / max(1, len(needed))
        blunt = [query for query, cores in needed.items() if cores - solved[query] > bound]
        for query in blunt:
            self._tangent(query, self.interval_s[query])
        return bool(blunt)


def _over_s(plan: BatchPlan, interval_s: Mapping[str, float]) -> list[float]:
    """The excess over each limit with these intervals, in seconds."""
    effective = Effective(plan, interval_s, early=EXACT)
    return [max(0.0, limit.other_s - limit.limit_s + latency_s(
        plan, limit.path, effective, share=limit.share, counted=limit.counted)) for limit in plan.limits]


def _is_alone(plan: BatchPlan) -> bool:
    """True if the plan has a single query, so that no writer's interval counts."""
    return len(plan.costs) == 1


def _longest_s(plan: BatchPlan, query: str, too_slow: frozenset[str]) -> float:
    """The longest interval with which a query that is alone meets all its limits; the shortest where it cannot."""
    cost, longest_s = plan.costs[query], plan.longest_s(query)
    for limit in plan.limits:
        works = query not in limit.counted.passed
        # Its latency is what no interval changes, and this times the interval.
        times = (limit.share if works and limit.counted.waits else 0.0) + (cost.busy if works else 0.0)
        if times > NOTHING:
            longest_s = min(longest_s, (limit.limit_s - limit.other_s - (cost.batch_s if works else 0.0)) / times)
    return max(longest_s, _least_s(plan, query, too_slow))


def _is_several(plan: BatchPlan, reader: str) -> bool:
    return len(plan.reads.get(reader, ())) > 1


def _least_s(plan: BatchPlan, query: str, too_slow: frozenset[str]) -> float:
    """The shortest interval that a query can keep to; of one that is too slow for any, the longest."""
    longest_s = plan.longest_s(query)
    return longest_s if query in too_slow else min(longest_s, max(plan.smallest_s, plan.costs[query].least_s))
