"""Which interval each query's batches should have, so that limits hold at the least CPU.

The derivation is in ``docs/latency.md``. In short: a batch takes CPU whatever it carries, so a query takes
``batch_cpu_s / T`` of a core for batches T seconds apart. A reader starts when a block comes, unless its own interval
is longer than that of who writes the block. So waiting along a path adds up to half of the *longest* interval on it,
and the durations of its batches are added to that. CPU is convex in the intervals and every limit is linear in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ortools.linear_solver import pywraplp

from scheduler.model.costs import GROUP_CPU_S

LARGEST_S = 60.0
SMALLEST_S = 0.02
BUSY = 0.8  # of its interval a batch may take, so that the next one starts in time
ROUNDS = 60
NOTHING = 1e-9  # a coefficient that is less breaks the solver off: it scales by it
TOLERANCE = 1e-4  # of the CPU, between what is known to be needed and what the intervals take


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a batch of a query takes, as measured on its slot.

    ``batch_s`` and ``batch_cpu_s`` are its duration and CPU however few events it has; ``event_s`` and ``event_cpu_s``
    what an event adds; ``rate_per_s`` how many come. ``group_cpu_s`` is what each group of events would take where its
    batches stay open.
    """

    batch_s: float
    batch_cpu_s: float
    rate_per_s: float = 0.0
    event_s: float = 0.0
    event_cpu_s: float = 0.0
    group_cpu_s: float = GROUP_CPU_S

    def __post_init__(self) -> None:
        for name in ("batch_s", "batch_cpu_s", "rate_per_s", "event_s", "event_cpu_s", "group_cpu_s"):
            if not (math.isfinite(value := getattr(self, name)) and value >= 0):
                raise ValueError(f"{name} is a number from 0 up, not {value!r}")

    @property
    def busy(self) -> float:
        """The part of its time that a query is at work on events alone, with as few batches as may be."""
        return self.rate_per_s * self.event_s

    def duration_s(self, interval_s: float) -> float:
        """How long a batch takes whose events came in one interval."""
        return self.batch_s + self.busy * interval_s

    def cores(self, interval_s: float) -> float:
        """CPU at an interval, in cores."""
        return self.batch_cpu_s / interval_s + self.rate_per_s * self.event_cpu_s

    @property
    def least_s(self) -> float:
        """The shortest interval at which batches end in time; infinite where events alone are too many."""
        return self.batch_s / (BUSY - self.busy) if self.busy < BUSY else math.inf


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts along a path of queries, where not all does.

    ``waits`` says whether what events wait for a batch of the first one does. Of ``passed`` queries no batch counts:
    they are at an end of the path because it begins or ends with a stream, which they write or read.
    """

    waits: bool = True
    passed: frozenset[str] = frozenset()


WHOLE = Counted()


@dataclass(frozen=True, slots=True)
class Limit:
    """Latency of at most ``limit_s`` along ``path``, queries from the source's on.

    ``other_s`` is the latency along it that no interval changes: of external services, of the network. ``share`` is the
    part of each wait that counts: half of it in the mean, as events come at any time; of a percentile that percentage.
    ``counted`` says what of the path is limited.
    """

    path: tuple[str, ...]
    limit_s: float
    other_s: float = 0.0
    share: float = 0.5
    counted: Counted = WHOLE


@dataclass(frozen=True, slots=True)
class Unmet:
    """A limit that no choice of intervals meets. ``least_s`` is the least latency that there is."""

    limit: Limit
    least_s: float


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of all queries, in seconds, the CPU that their batches take in cores, and what stays unmet."""

    interval_s: Mapping[str, float]
    cores: float
    unmet: tuple[Unmet, ...] = ()
    full: tuple[str, ...] = ()  # slots for want of whose CPU a limit is not met, or that events alone fill
    too_slow: tuple[str, ...] = ()  # queries whose events alone are too many for any interval


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What is to be decided.

    ``costs`` are by query; ``reads`` names the queries that write what a query reads. ``slot_of`` and ``capacity`` say
    where each one is, and what CPU that slot has for them, in cores; a slot without capacity has no bound.
    ``bounds_s`` are the longest intervals of queries that may not have ``largest_s``.
    """

    costs: Mapping[str, BatchCost]
    limits: Sequence[Limit]
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    slot_of: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    largest_s: float = LARGEST_S
    smallest_s: float = SMALLEST_S
    bounds_s: Mapping[str, float] = field(default_factory=dict)

    def longest_s(self, query: str) -> float:
        """The longest interval that a query may have, in seconds."""
        return min(self.largest_s, self.bounds_s.get(query, self.largest_s))


def wait_s(
    plan: BatchPlan, writer: str | None, reader: str, interval_s: Mapping[str, float], *, share: float = 0.5
) -> float:
    """How long what a writer has written waits for a batch of its reader, in seconds; without a writer, at a source.

    The first query's events wait half an interval. A block that a reader gets waits for half of what its interval is
    longer than its writer's. Where a reader has several writers, a block of one may just miss the batch that
    another's block has started: it is taken to wait a whole interval of the reader.

    Parameters
    ----------
    plan : BatchPlan
        Who reads whom.
    writer, reader : str
        Queries; the writer is None where events come from a source.
    interval_s : mapping of str to float
        Intervals by query.
    share : float, optional
        The part of a wait that counts, as of `Limit`.
    """
    if writer is None:
        return share * interval_s[reader]
    if len(plan.reads.get(reader, ())) > 1:
        return interval_s[reader]
    return share * max(0.0, interval_s[reader] - interval_s[writer])


def step_s(
    plan: BatchPlan, writer: str | None, reader: str, interval_s: Mapping[str, float], *, share: float = 0.5,
    counted: Counted = WHOLE,
) -> tuple[float, float]:
    """What counts of a query after another one of a path, or at its beginning: the wait for its batch, and that.

    Parameters
    ----------
    plan : BatchPlan
        What batches take, and who reads whom.
    writer, reader : str
        Queries; the writer is None where the path begins.
    interval_s : mapping of str to float
        Intervals by query.
    share : float, optional
        The part of a wait that counts, as of `Limit`.
    counted : Counted, optional
        What of the path counts; all of it where nothing is said.
    """
    waits = writer is not None or (counted.waits and reader not in counted.passed)
    return (wait_s(plan, writer, reader, interval_s, share=share) if waits else 0.0,
            0.0 if reader in counted.passed else plan.costs[reader].duration_s(interval_s[reader]))


def latency_s(
    plan: BatchPlan, path: Sequence[str], interval_s: Mapping[str, float], *, share: float = 0.5,
    counted: Counted = WHOLE,
) -> float:
    """The latency that intervals lead to along a path, in seconds: the mean, or by ``share`` a percentile.

    Parameters
    ----------
    plan : BatchPlan
        What batches take, and who reads whom.
    path : sequence of str
        Queries, from the source's on.
    interval_s : mapping of str to float
        Intervals by query.
    share : float, optional
        The part of a wait that counts, as of `Limit`.
    counted : Counted, optional
        What of the path counts; all of it where nothing is said.
    """
    steps = zip((None, *path), path, strict=False)
    return sum(sum(step_s(plan, writer, reader, interval_s, share=share, counted=counted)) for writer, reader in steps)


def choose_intervals(plan: BatchPlan) -> Intervals:
    """The intervals that meet all limits at the least CPU; where one cannot be met, as near to it as can be.

    The optimum is found by cutting planes (Kelley): the CPU of each query is a convex function of its own interval
    alone, so a few tangents each describe it where it matters, and what is left is a linear program.
    """
    too_slow = tuple(query for query, cost in plan.costs.items() if not cost.least_s <= plan.longest_s(query))
    program = _Program(plan, frozenset(too_slow))
    interval_s, late_s, full = program.solve()
    unmet = tuple(
        Unmet(limit, limit.other_s + latency_s(
            plan, limit.path, interval_s, share=limit.share, counted=limit.counted))
        for limit, over_s in zip(plan.limits, late_s, strict=True) if over_s > 1e-6 * max(1.0, limit.limit_s))
    cores = sum(cost.cores(interval_s[query]) for query, cost in plan.costs.items())
    return Intervals(interval_s, cores, unmet, full, too_slow)


class _Program:
    """The linear program over intervals T and the CPU of batches C, with tangents C >= c (2 t - T) / t² at points t.

    What a limit lacks is a variable of its own with a price above any CPU that could be saved, and what a slot lacks
    one with a price above that. So there is always a solution, and it says what cannot be met. A slot is full where a
    little more CPU would save a part of such a price: its dual value says so.
    """

    def __init__(self, plan: BatchPlan, too_slow: frozenset[str]) -> None:
        self._plan = plan
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        self._interval, self._cpu = {}, {}
        self._too_slow = too_slow
        price = self._price = 1e3 * (1.0 + sum(cost.batch_cpu_s for cost in plan.costs.values()) / plan.smallest_s)
        for query, cost in plan.costs.items():
            longest_s = plan.longest_s(query)
            least_s = longest_s if query in too_slow else min(longest_s, max(plan.smallest_s, cost.least_s))
            self._interval[query] = solver.NumVar(least_s, longest_s, "")
            self._cpu[query] = solver.NumVar(0, solver.infinity(), "")
        self._late = [solver.NumVar(0, solver.infinity(), "") for _ in plan.limits]
        self._lacking = {slot: solver.NumVar(0, solver.infinity(), "") for slot in plan.capacity}
        self._room: dict[str, pywraplp.Constraint] = {}
        self._add_limits()
        self._add_slots()
        solver.Minimize(sum(self._cpu.values()) + price * sum(self._late) + 1e3 * price * sum(self._lacking.values()))

    def _add_limits(self) -> None:
        solver, plan = self._solver, self._plan
        waits: dict[tuple[str, str], pywraplp.Variable] = {}
        for limit, late in zip(plan.limits, self._late, strict=True):
            total, counted = limit.other_s, limit.counted
            if counted.waits and limit.path[0] not in counted.passed:
                total = total + self._interval[limit.path[0]] * limit.share
            for query in limit.path:
                if query in counted.passed:
                    continue
                cost = plan.costs[query]
                total = total + cost.batch_s + (cost.busy if cost.busy > NOTHING else 0.0) * self._interval[query]
            for writer, reader in pairwise(limit.path):
                if len(plan.reads.get(reader, ())) > 1:
                    total = total + self._interval[reader]
                    continue
                if (writer, reader) not in waits:
                    wait = waits[writer, reader] = solver.NumVar(0, solver.infinity(), "")
                    solver.Add(wait >= self._interval[reader] - self._interval[writer])
                total = total + waits[writer, reader] * limit.share
            solver.Add(total <= limit.limit_s + late)

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
        self._solver.Add(self._cpu[query] + self._interval[query] * (cpu_s / at_s**2) >= 2 * cpu_s / at_s)

    def solve(self) -> tuple[dict[str, float], list[float], tuple[str, ...]]:
        """The intervals, what each limit lacks in seconds, and the slots whose CPU some limit or event lacks."""
        at_s = 1.0
        starts = []
        while at_s > self._plan.smallest_s:
            starts.append(at_s)
            at_s /= 4
        for query in self._interval:
            for start_s in (self._plan.smallest_s, *starts, self._plan.largest_s):
                self._tangent(query, start_s)
        for _ in range(ROUNDS):
            if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
                raise ArithmeticError("the linear program of the intervals has no solution")
            if not self._sharpen():
                break
        interval_s = {query: variable.solution_value() for query, variable in self._interval.items()}
        late_s = [variable.solution_value() for variable in self._late]
        full = tuple(slot for slot, room in self._room.items() if -room.dual_value() > 1e-6 * self._price)
        return interval_s, late_s, full

    def _sharpen(self) -> bool:
        """Add tangents where the CPU is underestimated; whether there was such a place."""
        at_s = {query: variable.solution_value() for query, variable in self._interval.items()}
        known = {query: variable.solution_value() for query, variable in self._cpu.items()}
        needed = {query: self._plan.costs[query].batch_cpu_s / interval_s for query, interval_s in at_s.items()}
        bound = TOLERANCE * sum(needed.values()) / max(1, len(needed))
        blunt = [query for query, cores in needed.items() if cores - known[query] > bound]
        for query in blunt:  # only now: the solver forgets its solution with the first change
            self._tangent(query, at_s[query])
        return bool(blunt)
