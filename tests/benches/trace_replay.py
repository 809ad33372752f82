"""Traces replayed through planning: what would run at each step, by Default and by Reuse. Nothing is executed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

from scheduler.applying import apply_plan
from scheduler.defragmenting import plan_defragmentation
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import NothingToGain
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.plan import Plan
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.planning import plan_removal, plan_submission
from scheduler.reuse.defragment import DefragmentRule
from workers.library.registry import task_types

from .estate import NODE
from .traces import Change, Trace

Strategy = Literal["default", "reuse", "defragmented"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
# Every step that is possible, whatever it disturbs: as few queries as there can be.
WHATEVER_IT_DISTURBS = DefragmentRule(ratio=0)


@dataclass(frozen=True, slots=True)
class Moment:
    """What runs after one step of a trace. A task counts as paused while its query runs it behind a closed tail."""

    dataflows: int
    tasks: int
    paused: int
    queries: int
    hops: int  # streams that cross from one query to another, through a channel
    users: Mapping[int, int]  # how many running tasks so many dataflows use


class Side:
    """The estate that a strategy makes of a trace, step by step.

    By Default every dataflow runs by itself: it is planned as private to a team of its own, so that nothing of it can
    be shared, and in every other respect as with Reuse. Defragmented is Reuse that after every change fuses queries
    and leaves out what nobody needs, until no step is left.
    """

    def __init__(
        self, strategy: Strategy, dataflows: Sequence[Dataflow], *, slots: int, prices: Prices,
        types: TaskTypes | None = None,
    ) -> None:
        self.strategy = strategy
        self.types = types or task_types()
        if strategy == "default":
            dataflows = [replace(dataflow, visibility="private") for dataflow in dataflows]
        self.dataflows = {dataflow.name: dataflow for dataflow in dataflows}
        self.teams = {name: f"team-{number}" for number, name in enumerate(self.dataflows)}
        self.prices = prices
        self.estate = Estate(slots=tuple(Slot(NODE, index) for index in range(slots)))

    def plan(self, change: Change) -> Plan:
        """What the change would do to the estate as it is."""
        name = change.dataflow
        if change.kind == "remove":
            return plan_removal(self.estate, name, task_types=self.types, prices=self.prices)
        return plan_submission(
            self.estate, self.dataflows[name], dataflow_id=name, team=self.teams[name], task_types=self.types,
            prices=self.prices,
        )

    def take(self, change: Change) -> Iterator[Estate]:
        """Carry the change out: the estate after it, and after each step of defragmentation that follows."""
        self.estate = apply_plan(self.estate, self.plan(change))
        yield self.estate
        if self.strategy == "defragmented":
            yield from self._defragmented()

    def _defragmented(self) -> Iterator[Estate]:
        waiting = sorted(self.estate.submitted)
        while waiting:
            with suppress(NothingToGain):
                plan = plan_defragmentation(
                    self.estate, waiting[-1], task_types=self.types, prices=self.prices, rule=WHATEVER_IT_DISTURBS
                )
                self.estate = apply_plan(self.estate, plan)
                yield self.estate
                continue
            waiting.pop()


def all_submitted(dataflows: Sequence[Dataflow], *, strategy: Strategy, slots: int, prices: Prices) -> Estate:
    """The estate that a strategy makes of dataflows submitted one after the other.

    Parameters
    ----------
    dataflows : sequence of Dataflow
        The dataflows, in the order in which they come.
    strategy : Strategy
        How dataflows are merged.
    slots : int
        How many slots there are.
    prices : Prices
        What a core, a query and what they take cost an hour.
    """
    side = Side(strategy, dataflows, slots=slots, prices=prices)
    for dataflow in dataflows:
        deque(side.take(Change("submit", dataflow.name)), maxlen=0)
    return side.estate


def replayed(trace: Trace, dataflows: Sequence[Dataflow], *, strategy: Strategy) -> Iterator[Estate]:
    """The estate after each step of a trace, in one slot as large as it takes: placement decides nothing here."""
    side = Side(strategy, dataflows, slots=1, prices=Prices())
    for change in trace.changes:
        *_, estate = side.take(change)
        yield estate


def moment_of(estate: Estate) -> Moment:
    """What runs in an estate."""
    fragments = estate.fragments.values()
    return Moment(
        dataflows=len(estate.submitted),
        tasks=len(estate.tasks),
        paused=sum(len(fragment.tasks) - fragment.active for fragment in fragments),
        queries=len(fragments),
        hops=sum(len(readers) for fragment in fragments for readers in fragment.outlets.values()),
        users=dict(sorted(Counter(len(users) for users in estate.users.values()).items())),
    )


def moments(trace: Trace, dataflows: Sequence[Dataflow], *, strategy: Strategy) -> tuple[Moment, ...]:
    """What runs after each step of a trace."""
    return tuple(moment_of(estate) for estate in replayed(trace, dataflows, strategy=strategy))


def reuse_histogram(moments: Sequence[Moment]) -> dict[int, float]:
    """Time-weighted: the share, over all steps, of running tasks that so many dataflows use (paper [1], Fig. 4)."""
    counted: Counter[int] = Counter()
    for moment in moments:
        counted.update(moment.users)
    return {users: count / counted.total() for users, count in sorted(counted.items())}


@dataclass(frozen=True, slots=True)
class Saving:
    """How many of Default's running tasks Reuse does without, 0 to 1."""

    mean: float  # over the steps of the walk
    peak: float  # where Default runs most
    best: float  # at the step of the walk where it saves most


def saving(trace: Trace, default: Sequence[Moment], reuse: Sequence[Moment]) -> Saving:
    """What Reuse saves against Default over a trace; steps at which nothing runs don't count."""
    tasks = [(default[step].tasks, reuse[step].tasks) for step in trace.walk if default[step].tasks]
    most, then = max(tasks)
    return Saving(
        mean=1 - sum(running for _, running in tasks) / sum(alone for alone, _ in tasks),
        peak=1 - then / most,
        best=max(1 - running / alone for alone, running in tasks),
    )
