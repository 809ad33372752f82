"""Defragmentation: which fragments to fuse, and when that is worth its disruption (the open question of paper [1]).

A step fuses a fragment with one that reads its last working task, or rebuilds one without the tasks that nobody needs.
Every step leaves fewer queries or fewer dead tasks, so steps end. Where none is left each task that could
be continued in its query is: a task with one parent, both of types that chain, so no cut has fewer queries. What a
schedule divided, and what exchanges events with that, stays as the schedule has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scheduler.model.checks import FiniteFigures
from scheduler.model.costs import TASK_BATCH_S
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.latency_limits import figure_in_words
from scheduler.model.ports import EstateView
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes

from .division import is_scheduled
from .fragments import LONGEST_CHAIN

MOST_SLOTS = 1 << 30


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fragments to be made one, each of which reads the one before; or one to be rebuilt without dead tasks.

    ``streams`` are those that no channel carries any more.
    """

    path: tuple[str, ...]
    slot: str
    dead_tasks: int
    streams: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DefragmentEvidence(FiniteFigures):
    """The measurements for defragmentation: latency that channels add, by stream; rates, by task; ages of fragments, in
    hours."""

    latency_ms: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    ages_h: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The load of the fragments of a step: events/s into them, and over each stream that no channel carries any more
    with the latency that this channel adds; hours since the youngest began. None where that is not known."""

    rate_per_s: float
    crossings: tuple[tuple[float, float | None], ...] = ()
    age_h: float | None = None


@dataclass(frozen=True, slots=True)
class DefragmentRule(FiniteFigures):
    """The rule for a worthwhile step: its gain over the time ahead is at least ``ratio`` times what it disturbs.

    The time ahead is as long as the younger of its fragments has run, and at most ``horizon_h``: what has just come is
    likely to go, what has stayed is likely to stay.
    """

    horizon_h: float = 24.0
    ratio: float = 2.0
    gap_s: float = 3.0  # from the last event of the old query to the first of the new one
    handover_core_s: float = 10.0  # CPU that ending, compiling and starting take
    delay_price: float = 0.01  # of a million events that are late by one second, in the currency of the prices


@dataclass(frozen=True, slots=True)
class Worth:
    """A step's gain against its disruption; money over ``hours`` ahead."""

    cores: float
    latency_ms: float
    hours: float
    gain: float
    gap_s: float
    events_delayed: float
    disruption: float

    def satisfies(self, rule: DefragmentRule) -> bool:
        """True if it is worth it."""
        return self.gain >= rule.ratio * self.disruption


def fusions(
    estate: EstateView, fragment_ids: Iterable[str], *, task_types: TaskTypes, query_cores: float,
    busy: Collection[str] = (), apart: Collection[str] = (),
) -> list[Fusion]:
    """Every step of the smallest kind that these fragments allow among themselves, in order of their ids.

    It makes two fragments one, or rebuilds one. Two can be one where the reader's first task has no other parent, both
    tasks chain by their types and by all who use them, neither has tasks that rest, all their state can move, they are
    on one node, and on another's slot there is room for both. ``busy`` fragments are left alone.

    Parameters
    ----------
    busy : collection of str, optional
        Fragments that are not to be touched now.
    """
    steps = _Steps(estate, task_types, query_cores, busy, apart)
    movable = {name: estate.fragments[name] for name in sorted(set(fragment_ids)) if steps.can_move(name)}
    steps_found = []
    for upper in movable.values():
        readers = [movable[name] for name in sorted(upper.outlets.get(upper.active_tasks[-1], ())) if name in movable]
        steps_found += [steps.of(parts) for parts in (*([upper, lower] for lower in readers), [upper])]
    return [step for step in steps_found if step is not None]


def series_along(
    estate: EstateView, path: Sequence[str], *, task_types: TaskTypes, query_cores: float, busy: Collection[str] = (),
    apart: Collection[str] = (),
) -> list[Fusion]:
    """Every step that makes a whole series of two and more neighbours on a path one fragment, by where they begin."""
    steps = _Steps(estate, task_types, query_cores, busy, apart)
    parts = [estate.fragments[name] for name in path]
    fusions_found = []
    for start in range(len(parts)):
        for end in range(start + 2, len(parts) + 1):
            if not steps.may_be_one(parts[start:end][-2:]):
                break
            if (step := steps.of(parts[start:end])) is not None:  # a longer series may have room where this has not
                fusions_found.append(step)
    return fusions_found


def step_of(
    estate: EstateView, path: Sequence[str], *, task_types: TaskTypes, query_cores: float, busy: Collection[str] = (),
    apart: Collection[str] = (),
) -> Fusion | None:
    """The step that makes these fragments one, or rebuilds the only one; None if it is impossible."""
    if not path or any(name not in estate.fragments for name in path):
        return None
    steps = _Steps(estate, task_types, query_cores, busy, apart)
    return steps.of([estate.fragments[name] for name in path])


def worth_of(
    estate: EstateView, fusion: Fusion, *, prices: Prices, query_cores: float, evidence: DefragmentEvidence,
    rule: DefragmentRule
) -> Worth:
    """The gain and the disruption of a step, as `weigh` says, by measurements of its fragments.

    Parameters
    ----------
    evidence : DefragmentEvidence
        The measurements of the fragments: ages and loads.
    """
    return weigh(fusion, load_of(estate, fusion, evidence), prices=prices, query_cores=query_cores, rule=rule)


def load_of(estate: EstateView, fusion: Fusion, evidence: DefragmentEvidence) -> StepLoad:
    """The load of the fragments of a step, as far as it is measured; a rate is that of the nearest task upstream that
    has one."""
    rate_per_s = _rate_into(estate, estate.fragments[fusion.path[0]], evidence)
    crossings = tuple(
        (evidence.rates_per_s.get(stream[0], rate_per_s), evidence.latency_ms.get(stream)) for stream in fusion.streams)
    ages_h = [evidence.ages_h[fragment_id] for fragment_id in fusion.path if fragment_id in evidence.ages_h]
    return StepLoad(rate_per_s, crossings, min(ages_h, default=None))


def weigh(fusion: Fusion, load: StepLoad, *, prices: Prices, query_cores: float, rule: DefragmentRule) -> Worth:
    """The gain and the disruption of a step.

    It gains the CPU of each query that is no more and of dead tasks, and the latency of channels for every event. It
    disturbs by its own CPU, and by the events that arrive in the gap: they are late by half of it on average. What is
    not measured is estimated: a channel adds half the time between two batches of its reader. Where events wait for
    longer than that time, the reader's tasks are slow: in front of one query of both they would wait as long.
    """
    dead_cores = fusion.dead_tasks * prices.costs.scale * TASK_BATCH_S * 1000 / prices.trigger_ms
    cores = (len(fusion.path) - 1) * query_cores + dead_cores
    crossings = [
        (per_s, _saved_ms(latency_ms, apart_ms=prices.paces_ms.get(reader, prices.trigger_ms)))
        for reader, (per_s, latency_ms) in zip(fusion.path[1:], load.crossings, strict=False)]
    hours = rule.horizon_h if load.age_h is None else min(rule.horizon_h, load.age_h)
    per_event_s = rule.delay_price / 1_000_000
    earlier_event_s = sum(per_s * latency_ms for per_s, latency_ms in crossings) / 1000 * hours * 3600
    events_delayed = load.rate_per_s * rule.gap_s
    return Worth(
        cores=cores, latency_ms=sum(latency_ms for _, latency_ms in crossings), hours=hours,
        gain=cores * prices.core_hour * hours + earlier_event_s * per_event_s,
        gap_s=rule.gap_s, events_delayed=events_delayed,
        disruption=rule.handover_core_s / 3600 * prices.core_hour + events_delayed * rule.gap_s / 2 * per_event_s,
    )


def _saved_ms(latency_ms: float | None, *, apart_ms: float) -> float:
    if latency_ms is None:
        return apart_ms / 2
    return latency_ms if latency_ms <= apart_ms else 0.0


def in_words(fusion: Fusion, worth: Worth, *, prices: Prices, rule: DefragmentRule) -> str:
    """A step's gain against its disruption, and the rule, for those who approve it."""
    *others, last = fusion.path
    change_text = f"Fuses {', '.join(others)} and {last} into one query" if others else f"Rebuilds {last}"
    dead_tasks = f"{fusion.dead_tasks} task{'s' * (fusion.dead_tasks != 1)}"
    dead = f" and leaves out {dead_tasks} that nobody needs" if fusion.dead_tasks else ""
    sooner = f", and events arrive about {figure_in_words(worth.latency_ms / 1000)} sooner" if worth.latency_ms else ""
    verdict = "enough" if worth.satisfies(rule) else "not enough"
    rule_in_words = f": {verdict}, for it should gain {rule.ratio:g} times as much" if rule.ratio else ""
    return (
        f"{change_text}{dead}: saves {worth.cores:.3g} cores{sooner}. For about {figure_in_words(worth.gap_s)} nothing "
        f"passes, so {worth.events_delayed:.0f} events are late; none is lost. Over the "
        f"{figure_in_words(3600 * worth.hours)} ahead that count it gains {_money(worth.gain)} {prices.currency} and "
        f"disturbs by {_money(worth.disruption)}{rule_in_words}."
    )


def _money(amount: float) -> str:
    """Two figures that count, without an exponent."""
    return f"{amount:.2f}" if amount >= 1 else f"{amount:.{2 - int(f'{amount:e}'.partition('e')[2]) - 1}f}"


class _Steps:
    """The fragments that can be one, and their slot."""

    def __init__(
        self, estate: EstateView, task_types: TaskTypes, query_cores: float,
        busy: Collection[str], apart: Collection[str],
    ) -> None:
        self._estate, self._types, self._query_cores = estate, task_types, query_cores
        self._busy, self._apart = busy, apart
        self._movable: dict[str, bool] = {}
        self._loads = {slot.name: cores for slot, cores in estate.least_loaded(MOST_SLOTS, query_cores=query_cores)}

    def of(self, parts: Sequence[Fragment]) -> Fusion | None:
        """Step that makes fragments one, or rebuilds the only one without its dead tasks; None where it cannot be."""
        dead, streams = sum(map(_dead, parts)), tuple(
            (upper.active_tasks[-1], lower.tasks[0]) for upper, lower in pairwise(parts) if upper.active_tasks)
        if not self.may_be_one(parts) or (len(parts) == 1 and not dead):
            return None
        if len(parts) > 1 and sum(part.active for part in parts) > LONGEST_CHAIN:
            return None
        slot = self._slot_for(parts)
        return None if slot is None else Fusion(tuple(part.id for part in parts), slot, dead, streams)

    def may_be_one(self, parts: Sequence[Fragment]) -> bool:
        """True if each works as a whole, can move, and goes on where the one before ends; of slots nothing is said."""
        return all(self.can_move(part.id) for part in parts) and all(
            self._continues(upper, lower) for upper, lower in pairwise(parts))

    def can_move(self, name: str) -> bool:
        """A fragment that works as a whole, and whose state can be handed to another query."""
        if name not in self._movable:
            self._movable[name] = name not in self._busy and self._can_move(self._estate.fragments[name])
        return self._movable[name]

    def _can_move(self, fragment: Fragment) -> bool:
        if fragment.paused or fragment.resting or is_scheduled(self._estate, fragment):
            return False
        types = (self._estate.tasks[task_id].type for task_id in fragment.active_tasks)
        return all(name in self._types and self._types[name].can_move for name in types)

    def _continues(self, upper: Fragment, lower: Fragment) -> bool:
        last, head = self._estate.tasks[upper.active_tasks[-1]], self._estate.tasks[lower.tasks[0]]
        if self._estate.teams_apart and upper.team != lower.team:
            return False
        if lower.id not in upper.outlets.get(last.id, ()) or head.id in self._apart or head.parents != (last.id,):
            return False
        return all(
            self._types[task.type].chain == "always" and not self._estate.users_of(task.id).unchained
            for task in (last, head))

    def _slot_for(self, parts: Sequence[Fragment]) -> str | None:
        """The slot of any of them that has least to do with all, where one core has room for what moves there."""
        slots = sorted({part.slot for part in parts})
        if len(slots) == 1:
            return slots[0]
        if len({node_of(slot) for slot in slots}) > 1:
            return None

        def load_with_all(slot: str) -> float:
            """The load with all of them, of whose queries one is left."""
            at_slot = sum(part.slot == slot for part in parts)
            moves = [part for part in parts if part.slot != slot]
            return self._loads.get(slot, 0.0) - (at_slot - 1) * self._query_cores + sum(
                self._estate.tasks[task_id].cores for part in moves for task_id in part.active_tasks)

        load, slot = min((load_with_all(slot), slot) for slot in slots)
        return slot if load <= 1.0 else None


def _dead(fragment: Fragment) -> int:
    return len(fragment.tasks) - len(fragment.kept_tasks)


def _rate_into(estate: EstateView, fragment: Fragment, evidence: DefragmentEvidence) -> float:
    """Events per second that reach a fragment: of what it reads, or of its source."""
    head = estate.tasks[fragment.tasks[0]]
    if head.parents:
        return sum(evidence.rates_per_s.get(parent, 0.0) for parent in head.parents)
    return evidence.rates_per_s.get(head.id, float(head.config.get("rate_per_s") or 0.0))
