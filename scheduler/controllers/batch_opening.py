"""Real-time mode as a controller: a query's batches stay open, or are micro-batches again.

Which modes the estate would have is decided by ``scheduler.latency.real_time``, for all queries at once. Here the
changes become one decision a dataflow: a query belongs to the dataflow with the strictest limit that is missed, and
where none is, to one that pays for its batches. Intervals are chosen beside the loop, for the modes in force.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.latency.limits_met import TOLERATED
from scheduler.model.checks import FiniteFigures
from scheduler.model.latency_limits import figure_in_words, in_words

from .changes import Aspect, AspectChange, BatchMode
from .controller_port import Controller, Evaluation
from .loop_values import ACTS, OFF, ControllerPromise, Decision, Policy, PromiseBound
from .promised_measures import CORES, LATER, LATER_MS, LIMITED, NOISE

WITHIN_S = 300.0
LEAST = 6  # comparable points that say something: a minute of them


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A query that would have the other mode, the dataflows that use it, and the queries that read from it.

    ``trigger_ms`` is how far apart its batches or groups of events would begin.
    """

    query: str
    opens: bool
    users: tuple[str, ...]
    trigger_ms: int
    readers: tuple[str, ...] = ()

    @property
    def change(self) -> AspectChange:
        """The change in the words of the loop."""
        modes = (BatchMode.MICRO, BatchMode.OPEN) if self.opens else (BatchMode.OPEN, BatchMode.MICRO)
        return AspectChange(Aspect.BATCHES, self.query, *modes)


@dataclass(frozen=True, slots=True)
class QueryFigures(FiniteFigures):
    """Expected cores of a query with the modes in force and with the candidate modes.

    ``tasks`` are its running tasks, ``load_tasks`` those whose rate is its load. What is not measured is None.
    """

    cores_now: float
    cores_then: float
    tasks: tuple[str, ...] = ()
    load_tasks: tuple[str, ...] = ()
    measured_cores: float | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class LimitThen(FiniteFigures):
    """The latency of a dataflow's limit with the modes in force, and with those that would be chosen; in seconds.

    ``is_missed`` says that no intervals meet it with the modes in force. ``measured_by`` is for whoever measures the
    effect.
    """

    words: str
    limit_s: float
    now_s: float
    then_s: float
    is_missed: bool
    queries: frozenset[str]
    measured_s: float | None = None
    measured_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sooner(self) -> bool:
        """True if it is missed, and comes nearer with the other modes."""
        return self.is_missed and self.then_s < self.now_s


@dataclass(frozen=True, slots=True)
class UserOfQueries:
    """A dataflow that uses queries which would have another mode, with its limits."""

    dataflow: str
    team: str
    limits: tuple[LimitThen, ...] = ()

    @property
    def strictest_s(self) -> float:
        """Its strictest limit; infinite where it has none."""
        return min((limit.limit_s for limit in self.limits), default=math.inf)

    def missed_on(self, query: str) -> float:
        """The strictest of its missed limits on a query that come nearer, in seconds; infinite where there is none."""
        return min((limit.limit_s for limit in self.limits if limit.is_sooner and query in limit.queries),
                   default=math.inf)


@dataclass(frozen=True, slots=True)
class Modes:
    """The evidence: the queries that would have another mode; by id the dataflows that use them; and figures of these
    queries and of their readers."""

    changes: tuple[ModeChange, ...] = ()
    users: Mapping[str, UserOfQueries] = field(default_factory=dict)
    figures: Mapping[str, QueryFigures] = field(default_factory=dict)


class BatchOpening(Controller):
    """Leaves the batches of queries open where a limit needs it or it costs less, and gives them up where not."""

    name = "open_batches"
    title = "Open batches"
    about = ("Leaves a query's batches open, so that events wait for no batch, where a latency limit needs that or it "
             "takes less CPU; else gives it micro-batches again.")
    reads = "modes"
    every_s = 10.0
    usual = Policy(ACTS, changes_per_hour=100, changes_per_day=500, cool_down_s=60.0)
    least_samples = LEAST
    helps_limits = True

    def evaluate(self, evidence: Modes, policies: Mapping[str, Policy]) -> Evaluation:
        """One decision for each dataflow to which a query belongs, those whose limits are missed by most first."""
        changes_by_dataflow: dict[str, list[ModeChange]] = {}
        for change in evidence.changes:
            user = self._asking(change, evidence, policies)
            if user is not None:
                changes_by_dataflow.setdefault(user.dataflow, []).append(change)
        return Evaluation(tuple(
            _decision(evidence.users[name], changes, evidence) for name, changes in changes_by_dataflow.items()))

    def _asking(
        self, change: ModeChange, evidence: Modes, policies: Mapping[str, Policy]
    ) -> UserOfQueries | None:
        """The user of a query for whom it is set: of those whose limit is missed, and of those whose teams let Weir
        act, the one with the strictest limit."""
        modes = {team: policy.mode for team, policy in policies.items()}
        users = [user for name in change.users if (user := evidence.users.get(name)) is not None
                 and modes.get(user.team, self.usual.mode) != OFF]
        return min(users, default=None, key=lambda user: (
            user.missed_on(change.query) == math.inf, modes.get(user.team, self.usual.mode) != ACTS,
            user.missed_on(change.query), user.strictest_s, user.dataflow))


def _decision(user: UserOfQueries, changes: Sequence[ModeChange], evidence: Modes) -> Decision:
    queries = {change.query for change in changes}
    for_limit = min((limit for limit in user.limits if limit.is_sooner and not queries.isdisjoint(limit.queries)),
                    default=None, key=lambda limit: limit.limit_s)
    limit = for_limit or min(user.limits, default=None, key=lambda limit: limit.limit_s)
    touched = sorted({evidence.users[name].team for change in changes for name in change.users
                      if name in evidence.users} - {user.team})
    cost = _Cost(changes, evidence)
    arguments = {
        "trigger_ms": " ".join(f"{change.query}={change.trigger_ms}" for change in changes),
        "cores_delta": f"{cost.then - cost.now:.6g}", "tasks": " ".join(cost.tasks),
        "load_tasks": " ".join(cost.load_tasks),
        **({} if limit is None else limit.measured_by)}
    return Decision(
        user.dataflow, user.team, tuple(change.change for change in changes),
        _sooner(for_limit) if for_limit else _cheaper(cost, limit), _why(changes, cost, for_limit, limit),
        worth=1 + for_limit.now_s / for_limit.limit_s if for_limit else min(1.0, max(0.0, cost.saved)),
        touched=tuple(touched), moves_queries=True, alongside=True, arguments=arguments)


class _Cost:
    """The cost of queries and of their readers, whose intervals follow them."""

    def __init__(self, changes: Sequence[ModeChange], evidence: Modes) -> None:
        names = dict.fromkeys(name for change in changes for name in (change.query, *change.readers))
        figures = [evidence.figures[name] for name in names if name in evidence.figures]
        loads = [evidence.figures[change.query] for change in changes if change.query in evidence.figures]
        self.now, self.then = (sum(cores) for cores in zip(
            *((figure.cores_now, figure.cores_then) for figure in figures), strict=True)) if figures else (0.0, 0.0)
        self.saved = self.now - self.then
        self.tasks = tuple(dict.fromkeys(task for figure in figures for task in figure.tasks))
        self.load_tasks = tuple(dict.fromkeys(task for figure in loads for task in figure.load_tasks))
        self.measured = _sum([figure.measured_cores for figure in figures])
        self.rate_per_s = _sum([figure.rate_per_s for figure in loads])


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum of all values or None."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(values) else None


def _sooner(limit: LimitThen) -> ControllerPromise:
    """The limit, or half of what is to be won; at whatever load."""
    before_s = max(limit.now_s if limit.measured_s is None else limit.measured_s, limit.then_s)
    at_most_s = max(limit.limit_s, (before_s + limit.then_s) / 2)
    text = f"events come within {in_words(limit.limit_s)}" if at_most_s == limit.limit_s else (
        f"events come {figure_in_words((before_s - limit.then_s) / 2)} sooner")
    return ControllerPromise(text, WITHIN_S, (PromiseBound(LIMITED, "ms", 1000 * before_s, 1000 * at_most_s),))


def _cheaper(cost: _Cost, limit: LimitThen | None) -> ControllerPromise:
    """Half of the CPU that it should save, as exactly as CPU can be told; and no limit is missed by it."""
    bounds = []
    saves = cost.saved > 0
    if cost.measured is not None and saves:
        at_most = cost.measured * (1 + NOISE) - cost.saved / 2
        bounds.append(PromiseBound(CORES, "cores", cost.measured, max(at_most, 0.0)))
    if limit is not None:
        before_ms = 1000 * (limit.now_s if limit.measured_s is None else limit.measured_s)
        bounds.append(PromiseBound(LIMITED, "ms", before_ms, max(
            1000 * TOLERATED * limit.limit_s, before_ms * LATER + LATER_MS if limit.is_missed else 0.0)))
    load = cost.rate_per_s if cost.measured is not None and saves and cost.rate_per_s else None
    less = f"takes {cost.saved:.2g} cores less, and " if saves else ""
    return ControllerPromise(f"{less}misses no limit", WITHIN_S, tuple(bounds), load)


def _why(
    changes: Sequence[ModeChange], cost: _Cost, for_limit: LimitThen | None, limit: LimitThen | None
) -> str:
    opened, closed = ([change.query for change in changes if change.opens is opens] for opens in (True, False))
    modes_text = " and ".join(
        f"{mode} in {_listed(names)}" for mode, names in (("open batches", opened), ("micro-batches", closed)) if names)
    cores = f"{cost.then:.2g} cores instead of {cost.now:.2g}"
    if for_limit is not None:
        return (f"The latency limit is a {for_limit.words}; the least with the modes in force is "
                f"{figure_in_words(for_limit.now_s)}. With {modes_text} events are expected within "
                f"{figure_in_words(for_limit.then_s)}, for {cores}.")
    late = "" if limit is None else (
        f", and events take {figure_in_words(limit.then_s)} where the limit is a {limit.words}")
    return f"{modes_text[0].upper()}{modes_text[1:]} take {cores}{late}."


def _listed(queries: Sequence[str]) -> str:
    return queries[0] if len(queries) == 1 else f"{len(queries)} queries"
