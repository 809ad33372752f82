"""Costs learned from slots that work: ridge regression towards declared figures, by non-negative least squares.

The model is linear: a slot's CPU over a time is a sum of a constant, of a cost for each batch of a query, for each
batch of a task by its type, and for each of its events. CPU need not be apportioned among queries first, so slots with
several queries can be used. Where measurements cannot tell two figures apart, these keep their declared proportion.
Huber's weights limit the influence of outliers.

A query whose batches stay open has few batches, and takes CPU for each group of its events instead. This figure is
fitted from slots with such queries, after the others were fitted from slots without; if there are no slots without, all
figures are fitted at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from scheduler.model.costs import DECLARED, GROUP_CPU_S, Costs, declared_batch_s, legs_of_a_group
from scheduler.model.task_types import TaskTypes

LEAST_S = 240.0  # seconds that a slot must have been seen with the same queries
NOISE = 0.1  # relative, of what a slot is seen to take
TRUST = 0.6  # relative: how far a figure of batches is from what is declared, by the machine's scale
TRUST_EVENTS = 2.0  # the same of events: what types declare is a first guess
TRUST_SLOT = 2.0  # the same of a driver by itself: where each slot has one query, its figure and a batch's look alike
UNPROVED = 0.3  # the error of what fewer groups were seen for than can be held against each other
FEWEST_GROUPS = 3
FOLDS = 20
HUBER = 2.0  # times the noise: what is further off counts by its distance, not by the square of it
ITERATIONS = 5
LEAST_US = 0.1  # of an event, where a type declares less


@dataclass(frozen=True, slots=True)
class QuerySeen:
    """A query over a time: its batches, and the types of its tasks with the events that each took in.

    ``groups`` is of one whose batches stay open: how many groups of events these took; None of micro-batches.
    """

    id: str
    batches: int
    tasks: tuple[tuple[str, int], ...]
    groups: float | None = None


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """A slot over a time: seconds, the CPU of its driver and Python workers in microseconds, and its queries."""

    seconds: float
    cpu_us: int
    queries: tuple[QuerySeen, ...]

    @property
    def group(self) -> tuple[str, ...]:
        """The queries, by id and mode: what is seen of the same ones belongs together."""
        return tuple(sorted(query.id if query.groups is None else f"{query.id} open" for query in self.queries))

    @property
    def has_open_batches(self) -> bool:
        """True if a query in it leaves its batches open."""
        return any(query.groups is not None for query in self.queries)

    @property
    def types(self) -> frozenset[str]:
        """The types of its tasks."""
        return frozenset(name for query in self.queries for name, _ in query.tasks)

    @property
    def cores(self) -> float:
        """CPU cores that it took."""
        return self.cpu_us / 1e6 / self.seconds


def fit_costs(
    slots_seen: Iterable[SlotSeen], *, task_types: TaskTypes, machine: str = "", version: int = 1
) -> Costs | None:
    """Costs of a class of machine from what its slots were seen to take; None where too little was seen.

    Parameters
    ----------
    slots_seen : iterable of SlotSeen
        Of slots that had warmed up, the newest first; several of the same queries are added up.

    References
    ----------
    .. [1] Hoerl and Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems", 1970.
    .. [2] Huber, "Robust Estimation of a Location Parameter", 1964.
    """
    slots = [slot for slot in _grouped(slots_seen) if slot.types <= set(task_types)]
    if not slots:
        return None
    opened = [slot for slot in slots if slot.has_open_batches]
    groups = [slot for slot in slots if not slot.has_open_batches] or opened
    types = sorted(frozenset().union(*(slot.types for slot in groups)))
    figures = _Figures(types, task_types)
    scale, factors = _fit(figures, groups)
    fitted = factors * figures.declared
    by_batch, by_event = fitted[2:2 + len(types)], fitted[2 + len(types):-1]
    costs = Costs(
        query_batch_s=float(fitted[1]), slot_cores=float(fitted[0]), group_cpu_s=float(fitted[-1]),
        # A driver's own CPU is in the bills of its queries: each is priced with the part that one has as a rule.
        fixed_cores=float(fitted[0]) * sum(slot.seconds for slot in groups) / sum(
            slot.seconds * len(slot.queries) for slot in groups),
        batch_s=dict(zip(types, map(float, by_batch), strict=True)),
        event_us={name: float(event_s * 1e6) for name, event_s in zip(types, by_event, strict=True)},
        scale=scale, queries=len({query.id for slot in groups for query in slot.queries}),
        error=_error(figures, groups), machine=machine, version=version)
    return costs if groups is opened else replace(
        costs, group_cpu_s=_group_cpu_s(costs, opened, task_types=task_types))


def expected_cores(slot: SlotSeen, *, costs: Costs, task_types: TaskTypes) -> float:
    """CPU cores that a slot would take for what it was seen to do."""
    used_s = costs.slot_cores * slot.seconds
    for query in slot.queries:
        used_s += query.batches * costs.query_batch_s + _legs(query, task_types) * costs.group_cpu_s
        for name, events in query.tasks:
            task_type = task_types[name]
            used_s += query.batches * costs.task_batch_s(task_type) + events * costs.task_event_us(task_type) / 1e6
    return used_s / slot.seconds


class _Figures:
    """The figures to find, in the order of the columns, and what is declared of each: s for a batch or an event."""

    def __init__(self, types: Sequence[str], task_types: TaskTypes) -> None:
        self._task_types = task_types
        self._column = {name: index for index, name in enumerate(types)}
        self.declared = np.array([
            DECLARED.slot_cores, DECLARED.query_batch_s,
            *(declared_batch_s(task_types[name]) for name in types),
            *(max(task_types[name].cost_us, LEAST_US) / 1e6 for name in types), GROUP_CPU_S])
        self.trust = np.array([TRUST_SLOT] + [TRUST] * (1 + len(types)) + [TRUST_EVENTS] * (len(types) + 1))

    def row(self, slot: SlotSeen) -> np.ndarray:
        """The weight of each figure in the load of a slot, by its cost: their products add up to 1."""
        counts = np.zeros(len(self.declared))
        counts[0] = slot.seconds
        types = len(self._column)
        for query in slot.queries:
            counts[1] += query.batches
            counts[-1] += _legs(query, self._task_types)
            for name, events in query.tasks:
                counts[2 + self._column[name]] += query.batches
                counts[2 + types + self._column[name]] += events
        return counts * self.declared * 1e6 / slot.cpu_us


def _grouped(slots_seen: Iterable[SlotSeen]) -> list[SlotSeen]:
    """The sums of what was seen of the same queries, where that is long enough and something was done."""
    groups: dict[tuple[str, ...], SlotSeen] = {}
    for slot in slots_seen:
        groups[slot.group] = _added(groups[slot.group], slot) if slot.group in groups else slot
    return [
        slot for _, slot in sorted(groups.items())
        if slot.seconds >= LEAST_S and slot.cpu_us > 0 and sum(
            query.batches + (query.groups or 0.0) for query in slot.queries)]


def _added(newer: SlotSeen, slot: SlotSeen) -> SlotSeen:
    queries: dict[str, QuerySeen] = {query.id: query for query in newer.queries}
    for query in slot.queries:
        older = queries[query.id]
        if [name for name, _ in older.tasks] != [name for name, _ in query.tasks]:
            return newer  # its tail was closed or opened since
        tasks = tuple((name, events + more) for (name, events), (_, more) in zip(older.tasks, query.tasks, strict=True))
        groups = None if query.groups is None else (older.groups or 0.0) + query.groups
        queries[query.id] = QuerySeen(query.id, older.batches + query.batches, tasks, groups)
    return SlotSeen(newer.seconds + slot.seconds, newer.cpu_us + slot.cpu_us, tuple(queries.values()))


def _fit(figures: _Figures, groups: Sequence[SlotSeen]) -> tuple[float, np.ndarray]:
    """The factor of this class on all declared costs, and the factor of each figure."""
    rows = np.array([figures.row(slot) for slot in groups])
    scale = median(1 / row.sum() for row in rows)
    factors = np.full(rows.shape[1], scale)
    ridge = 1 / (figures.trust * scale) ** 2
    for _ in range(ITERATIONS):
        off = np.abs(rows @ factors - 1) / NOISE
        weights = np.minimum(1.0, HUBER / np.maximum(off, HUBER)) / NOISE**2
        gram = (rows.T * weights) @ rows + np.diag(ridge)
        aim = rows.T @ weights + ridge * scale
        factors = _not_negative(gram, aim, factors)
    return float(scale), factors


def _legs(query: QuerySeen, task_types: TaskTypes) -> float:
    return (query.groups or 0.0) * legs_of_a_group(task_types[name] for name, _ in query.tasks)


def _group_cpu_s(costs: Costs, opened: Sequence[SlotSeen], *, task_types: TaskTypes) -> float:
    """The cost of a group, from slots with open batches: what is left of their CPU beside all that is known.

    Ridge regression of one figure with Huber's weights, as the others. What these slots took changes no other figure.
    """
    prior = costs.scale * GROUP_CPU_S
    before = replace(costs, group_cpu_s=0.0)
    taken_us = np.array([float(slot.cpu_us) for slot in opened])
    known_us = np.array(
        [1e6 * slot.seconds * expected_cores(slot, costs=before, task_types=task_types) for slot in opened])
    groups = np.array([sum(_legs(query, task_types) for query in slot.queries) for slot in opened])
    row, unknown_share, factor = groups * prior * 1e6 / taken_us, 1 - known_us / taken_us, 1.0
    for _ in range(ITERATIONS):
        off = np.abs(row * factor - unknown_share) / NOISE
        weights = np.minimum(1.0, HUBER / np.maximum(off, HUBER)) / NOISE**2
        factor = max(0.0, float(
            (weights @ (row * unknown_share) + 1 / TRUST_EVENTS**2) / (weights @ row**2 + 1 / TRUST_EVENTS**2)))
    return prior * factor


def _not_negative(gram: np.ndarray, aim: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The x ≥ 0 with the least x·Gx/2 − aim·x, by coordinate descent: G is positive definite."""
    x = start.copy()
    for _ in range(500):
        largest = 0.0
        for column in range(len(x)):
            better = max(0.0, x[column] + (aim[column] - gram[column] @ x) / gram[column, column])
            largest = max(largest, abs(better - x[column]))
            x[column] = better
        if largest < 1e-9:
            break
    return x


def _error(figures: _Figures, groups: Sequence[SlotSeen]) -> float:
    """The error of each group against the prediction from the others: the root mean square of relative errors."""
    if len(groups) < FEWEST_GROUPS:
        return UNPROVED
    folds = min(FOLDS, len(groups))
    squares = []
    for fold in range(folds):
        held_out = groups[fold::folds]
        other_slots = [slot for index, slot in enumerate(groups) if index % folds != fold]
        _, factors = _fit(figures, other_slots)
        squares += [float(figures.row(slot) @ factors - 1) ** 2 for slot in held_out]
    return (sum(squares) / len(squares)) ** 0.5
