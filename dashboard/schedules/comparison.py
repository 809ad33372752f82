"""Pairs of allocation and mapping side by side, as rows. Pure: values in, values out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.allocation.acquisition import Acquisition
from scheduler.enactment import wanted_of, weights_of
from scheduler.model.errors import MissingProfile, WeirError
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.placement import Bound
from scheduler.model.resources import HOURS_PER_MONTH
from scheduler.pairs import PAIRS, Pair, about, key_of
from scheduler.reuse.division import is_cut_so, keys_divided_anew
from scheduler.scheduling import Comparison, Schedule

Today = Mapping[str, Sequence[RunningBundle]]  # bundles by the submitted task that they execute

TRAFFIC = "traffic between nodes by even parts"  # that which the exact mapping makes least, whatever the routing


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes by a schedule of the bundles that run: how many."""

    start: int = 0
    leave: int = 0
    move: int = 0  # another slot of the same node, or another number of threads: stopped and begun again
    weigh: int = 0  # another part of the events, without a stop
    stay: int = 0

    @property
    def any(self) -> bool:
        """True if anything would."""
        return bool(self.start or self.leave or self.move or self.weigh)

    @property
    def stays(self) -> bool:
        """True if it is what runs."""
        return self.stay > 0 and not self.any


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines of one kind: ``size`` is a size to buy, or empty for nodes that are there, which ``names`` are."""

    size: str
    count: int
    slots: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One pair: its schedule in figures, or why it has none."""

    pair: Pair
    schedule: Schedule | None = None
    machines: tuple[Machines, ...] = ()
    changes: Changes | None = None
    far: tuple[str, ...] = ()  # tasks whose keys would go to other nodes
    error: WeirError | None = None

    @property
    def key(self) -> str:
        """The pair in addresses and forms."""
        return key_of(self.pair)

    @property
    def about(self) -> str:
        """A description of the pair in a few words."""
        return about(self.pair)

    @property
    def to_buy(self) -> int:
        """Slots on machines that are not there."""
        return sum(machines.slots for machines in self.machines if machines.size)

    @property
    def published(self) -> tuple[Machines, ...]:
        """The machines to buy by the paper's rule, where they would cost more."""
        acquisition = self.schedule.published_acquisition if self.schedule else None
        return tuple(machines for machines in machines_of(acquisition) if machines.size) if acquisition else ()

    @property
    def per_month(self) -> float:
        """The price of 730 hours."""
        return self.schedule.acquisition.per_hour * HOURS_PER_MONTH if self.schedule else 0.0

    @property
    def cores(self) -> float:
        """The CPU that its allocation reckons with, in slots."""
        return self.schedule.allocation.cpu if self.schedule else 0.0

    @property
    def bounds(self) -> tuple[tuple[str, Bound], ...]:
        """The bounds of its distance from the best placement, where they are known."""
        if self.schedule is None:
            return ()
        placement = self.schedule.placement
        bounds = (("slots", placement.slots_bound), (TRAFFIC, placement.traffic_bound))
        return tuple((name, bound) for name, bound in bounds if bound is not None)

    @property
    def note(self) -> str:
        """The other mapping that made the placement, where one did: the exact mapping needs slots that are alike. And
        of which tasks keys would go to other nodes, which takes longer."""
        made_by = self.schedule.placement.algorithm if self.schedule else self.pair[1]
        placed = "" if made_by == self.pair[1] else f"placed as by {made_by}: others have part of its slots"
        far = f"keys of {', '.join(self.far)} go to another node and stand still longer" if self.far else ""
        return "; ".join(filter(None, (placed, far)))

    @property
    def unmeasured(self) -> int:
        """Bundles whose number of threads was not measured itself."""
        return self.schedule.prediction.unmeasured if self.schedule else 0

    @property
    def keeps(self) -> bool:
        """True if it keeps the rate that was asked for."""
        return self.schedule is not None and self.schedule.prediction.keeps

    @property
    def cannot(self) -> str:
        """The reason why it cannot be proposed as it stands; empty where it can."""
        if self.schedule is None and self.error is None:
            return "This schedule is still being computed."
        if self.schedule is None:
            return "There is no schedule to propose. Choose another pair or rate."
        if self.changes is not None and self.changes.stays:
            return "The dataflow already runs by this schedule. Choose another pair or rate."
        if self.to_buy:
            return (f"{self.to_buy} of its slots need new machines. Add nodes or slots first, or choose a rate that "
                    "needs fewer.")
        return ""

    @property
    def limit(self) -> str:
        """The limit of its rate."""
        limit = self.schedule.prediction.routed.limit if self.schedule else None
        return limit.reason if limit else ""


def rows_of(comparison: Comparison, *, today: Today | None = None) -> tuple[ComparisonRow, ...]:
    """A row for each pair that was asked for, in the order of all pairs."""
    machines = {
        schedule.pair: ComparisonRow(
            schedule.pair, schedule, machines_of(schedule.acquisition), changes(schedule, today or {}),
            far_of(schedule, today or {}))
        for schedule in comparison.schedules}
    machines |= {pair: ComparisonRow(pair, error=error) for pair, error in comparison.errors.items()}
    return tuple(machines[pair] for pair in PAIRS if pair in machines)


def best_of(rows: Sequence[ComparisonRow]) -> ComparisonRow | None:
    """The row to look at first: it keeps the rate, buys nothing, costs least; at equal prices, the most exact mapping.

    Where no pair keeps the rate, the one that comes nearest to it.
    """
    scheduled = [row for row in rows if row.schedule is not None]
    if not scheduled:
        return None

    def order(row: ComparisonRow) -> tuple[bool, float, bool, float, int]:
        assert row.schedule is not None
        short = 0.0 if row.keeps else -row.schedule.sustained_per_s
        return not row.keeps, short, row.to_buy > 0, row.schedule.acquisition.per_hour, -PAIRS.index(row.pair)

    return min(scheduled, key=order)


def machines_of(acquisition: Acquisition) -> tuple[Machines, ...]:
    """Nodes that are there, then machines to buy by size, largest first."""
    existing = [node for node in acquisition.nodes if not node.new]
    choices = [
        Machines("", len(existing), sum(len(node.slots) for node in existing), tuple(node.name for node in existing))
    ]
    counts: Counter[str] = Counter()
    slots: Counter[str] = Counter()
    for node in acquisition.bought:
        name = node.size.name if node.size else ""
        counts[name] += 1
        slots[name] += len(node.slots)
    choices += [Machines(name, count, slots[name]) for name, count in counts.items()]
    return tuple(machines for machines in choices if machines.count)


def changes(schedule: Schedule, today: Today) -> Changes:
    """The number of today's bundles that a schedule moves, starts and ends, task by task.

    A bundle that keeps its slot goes on, one that gets another slot of its node moves. On another node a new one starts
    and the old one ends.
    """
    count: Counter[str] = Counter()
    for task, counts in schedule.placement.counts.items():
        running = {bundle.slot: bundle for bundle in today.get(task, ()) if not bundle.leaving}
        if not running:
            count["start"] += len(counts)
            continue
        weights = weights_of(schedule, task)  # as they would be stored: those that run are
        if task in schedule.job.by_key and not is_cut_so(wanted_of(schedule, task), running.values()):
            count["start"] += len(counts)  # its keys change hands
            count["leave"] += len(running)
            continue
        planned = {
            schedule.placement.slots[position].name: (threads, weights[position])
            for position, threads in counts.items()}
        for slot in planned.keys() & running.keys():
            threads, weight = planned.pop(slot)
            bundle = running.pop(slot)
            change = "stay" if weight == bundle.weight else "weigh"
            count[change if threads == bundle.threads else "move"] += 1
        moved = (Counter(map(node_of, planned)) & Counter(map(node_of, running))).total() if planned and running else 0
        count["move"] += moved
        count["start"] += len(planned) - moved
        count["leave"] += len(running) - moved
    return Changes(**count)


def far_of(schedule: Schedule, today: Today) -> tuple[str, ...]:
    """The tasks of which some keys would go to other nodes."""
    far = []
    for task in sorted(schedule.job.by_key & schedule.placement.counts.keys()):
        bundles = [bundle for bundle in today.get(task, ()) if not bundle.leaving]
        parts = wanted_of(schedule, task)
        if bundles and (bundles[0].key_ranges or len(parts) > 1):
            fragment = Fragment(bundles[0].id, (task,), bundles[0].slot, 1, bundles=tuple(bundles))
            change = keys_divided_anew(fragment, parts, ids=map(str, itertools.count()))
            far += [task] if change.after[fragment.id].far_takers else []
    return tuple(far)


def missing_of(error: WeirError | None) -> tuple[str, ...]:
    """The tasks without a profile, where no schedule could be made for lack of one."""
    missing = error.facts.get("tasks") if isinstance(error, MissingProfile) else None
    return tuple(missing) if isinstance(missing, list) else ()
