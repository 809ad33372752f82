"""Usage: who uses a running task, and what a slot has to do; figures that can be kept from plan to plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .fragment import Fragment, RunningTask

NAMED = 20  # most dataflows that a plan names of those that it touches: 20,000 may share one source
NANO = 1_000_000_000
MOST_CORES = 100_000  # of a task: the sum of a slot's has to be a whole number of 64 bits


@dataclass(frozen=True, slots=True)
class Users:
    """The submitted dataflows that use a running task: how many of each team, and the first of them."""

    by_team: Mapping[str, int]
    first: tuple[str, ...]  # the least ids, NAMED + 1 of them where there are as many: one may be the asker's own
    paused: int = 0  # how many of them are paused, so that their need for it rests
    unchained: bool = False  # whether any of them says that it has a query of its own

    @property
    def count(self) -> int:
        return sum(self.by_team.values())


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """The expected load of a slot: run queries, and work on their tasks; ``bundles`` of them are a schedule's.

    In whole nanocores: sums do not depend on the order of their parts, so the same estate always gets the same plan,
    also where the sum is kept from plan to plan.
    """

    queries: int = 0
    task_nanocores: int = 0
    bundles: int = 0

    def __add__(self, other: SlotLoad) -> SlotLoad:
        return SlotLoad(
            self.queries + other.queries, self.task_nanocores + other.task_nanocores, self.bundles + other.bundles)

    def __sub__(self, other: SlotLoad) -> SlotLoad:
        return SlotLoad(
            self.queries - other.queries, self.task_nanocores - other.task_nanocores, self.bundles - other.bundles)

    def nanocores(self, *, query_cores: float) -> int:
        """CPU that the slot is expected to spend, where a query takes so much for running batches at all."""
        return self.queries * nanocores(query_cores) + self.task_nanocores


def nanocores(cores: float) -> int:
    """CPU cores in whole billionths; of more than ``MOST_CORES`` those."""
    return round(min(cores, MOST_CORES) * NANO)


def growth_of(
    before: Iterable[Fragment], after: Iterable[Fragment], tasks: Mapping[str, RunningTask]
) -> dict[str, SlotLoad]:
    """The additional load of slots with some fragments instead of others, by slot name, where that is not nothing."""
    loads: dict[str, SlotLoad] = {}
    for fragment in after:
        for slot, load in loads_of(fragment, tasks).items():
            loads[slot] = loads.get(slot, SlotLoad()) + load
    for fragment in before:
        for slot, load in loads_of(fragment, tasks).items():
            loads[slot] = loads.get(slot, SlotLoad()) - load
    return {slot: load for slot, load in loads.items() if load != SlotLoad()}


def loads_of(fragment: Fragment, tasks: Mapping[str, RunningTask]) -> dict[str, SlotLoad]:
    """The loads that a fragment adds to its slots, by slot name; a paused one nothing.

    Each bundle is a query with its part of the work of the tasks that work: one that is leaving only the query.
    """
    if fragment.paused:
        return {fragment.slot: SlotLoad()}
    work = sum(nanocores(tasks[task_id].cores) for task_id in fragment.active_tasks)
    loads: dict[str, SlotLoad] = {}
    for bundle in fragment.queries:
        load = SlotLoad(1, work if bundle.weight == 1 else round(bundle.weight * work), int(fragment.divided))
        loads[bundle.slot] = loads.get(bundle.slot, SlotLoad()) + load
    return loads
