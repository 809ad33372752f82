"""What the controller of open batches is told: the modes that the pacer would choose, and what they are to bring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from dashboard.controllers.collecting.limited import LimitSeries, measured_by
from dashboard.controllers.collecting.lines import Kept, middle
from dashboard.controllers.models import RoundRow
from dashboard.operations.costs import costs_here
from dashboard.operations.latency_problem import queries_of, wants_of
from dashboard.operations.models import BatchFigures, LatencyStatus
from dashboard.operations.modes import WantedModes, wanted_modes
from dashboard.operations.open_batches import may_be_open, refusals_in
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from scheduler.controllers.defragmentation import CORES
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.opening import LIMITED, LimitThen, ModeChange, Modes, QueryFigures, UserOfQueries
from scheduler.controllers.protocol import Effect, Sample
from scheduler.controllers.values import Round
from scheduler.history.series import MINUTE, QUERY, TASK, TEN_SECONDS, Series
from scheduler.latency.pacing import Queries
from scheduler.latency.real_time import Chosen, choose_modes, keep_modes
from scheduler.latency.status import IMPOSSIBLE
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Way, way_of
from scheduler.model.estate import Estate
from scheduler.model.latency import LatencyLimit, from_json

BEFORE = timedelta(minutes=5)  # over which CPU is measured before a change
SETTLES = timedelta(seconds=30)  # after a restart
FRAMES_EVERY = timedelta(minutes=5)
CHANGED = 0.1  # relative: rates that differ by less from those of the last frame lead to the same


def evidence(at: datetime) -> Modes | None:
    """The modes that would be chosen now and are not in force; None where nothing was noted lately."""
    wanted = wanted_modes(at=at)
    if wanted is None or not wanted.opens:
        return None if wanted is None else Modes()
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    return _modes(view, wanted, at)


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """What would have been chosen at the rates that there were, for the queries, costs and limits of now."""
    view = view_for(EVERYTHING)
    rows = BatchFigures.objects.select_related("fragment").filter(pk__in=list(view.estate.fragments)).exclude(cost={})
    then = _Then(view, {row.pk: row for row in rows})
    rates = {name: _rates(view.estate, name) for name in then.queries.costs}
    history = Kept([line for lines in rates.values() for line in lines], MINUTE, begin, end)
    measured = {name: history.total(lines) for name, lines in rates.items()}
    at = begin
    while at <= end:
        index = history.index(at)
        yield Frame(at.timestamp(), then.modes({
            name: float(line[index]) for name, line in measured.items()
            if index < len(line) and np.isfinite(line[index])}))
        at += FRAMES_EVERY


def effect(turn: Round, row: RoundRow, at: datetime) -> Effect | None:
    """CPU of the queries that its tasks are in by now, and the latency of its limit, since they had started again."""
    begin, end = row.changed + SETTLES, at - timedelta(seconds=TEN_SECONDS.step_s)  # whole points alone
    if end <= begin:
        return None
    estate, given = view_for(EVERYTHING).estate, turn.decision.arguments
    tasks, loads = (given.get(name, "").split() for name in ("tasks", "load_tasks"))
    if not all(task in estate.places for task in tasks):
        return None  # what was changed has gone since
    cpu, limited = _cpu(estate, {estate.places[task][0] for task in tasks}), LimitSeries.of(given, estate)
    load = [Series(TASK, task, "rate_per_s") for task in loads]
    history = Kept([*cpu, *load, *limited.all], TEN_SECONDS, begin, end)
    lines = {CORES: history.total(cpu), LIMITED: limited.latency_ms(history)}
    at_load = history.total(load)
    return Effect(begin.timestamp(), tuple(
        Sample(float(moment_s), {measure: float(line[index]) for measure, line in lines.items()}, float(at_load[index]))
        for index, moment_s in enumerate(history.times_s) if begin.timestamp() <= moment_s <= end.timestamp()))


# The evidence ---------------------------------------------------------------------------------------------------------


def _modes(view: View, wanted: WantedModes, at: datetime) -> Modes:
    estate = view.estate
    changes = _changes(
        view, {name: is_open for name, is_open in wanted.opens.items() if name in estate.fragments}, wanted.trigger_ms)
    limits: dict[str, list[LimitThen]] = {}
    for row in LatencyStatus.objects.filter(dataflow__in={user for change in changes for user in change.users}):
        key, (limit,) = str(row.dataflow_id), from_json(row.limit) or (None,)
        then, way = wanted.limits.get((key, row.number)), limit and way_of(estate, key, limit)
        if then is not None and way:
            limits.setdefault(key, []).append(_limit_then(
                estate, key, limit, way, now_s=row.expected_s if row.least_s is None else row.least_s, then_s=then[0],
                is_missed=row.state == IMPOSSIBLE, is_met_then=then[1], measured_s=row.measured_s))
    names = {name for change in changes for name in (change.query, *change.readers)}
    return Modes(changes, _users_of(view, changes, limits), _figures(view, names, wanted.cores, at))


def _changes(view: View, opens: Mapping[str, bool], trigger_ms: Mapping[str, int]) -> tuple[ModeChange, ...]:
    return tuple(
        ModeChange(name, is_open, _users(view, name), trigger_ms[name], _readers(view.estate, name))
        for name, is_open in opens.items())


def _limit_then(
    estate: Estate, dataflow: str, limit: LatencyLimit, way: Way, *, now_s: float, then_s: float, is_missed: bool,
    is_met_then: bool, measured_s: float | None = None,
) -> LimitThen:
    return LimitThen(
        limit.words, limit.limit_s, now_s, then_s, is_missed, is_met_then,
        frozenset(way.writers.keys() - way.written_by), measured_s, measured_by(estate, dataflow, limit))


def _users_of(
    view: View, changes: Iterable[ModeChange], limits: Mapping[str, Sequence[LimitThen]]
) -> dict[str, UserOfQueries]:
    return {
        name: UserOfQueries(name, view.estate.submitted[name].team, tuple(limits.get(name, ())))
        for name in {user for change in changes for user in change.users}}


def _users(view: View, query: str) -> tuple[str, ...]:
    """The dataflows that a query works for now."""
    estate = view.estate
    users = {user for task in estate.fragments[query].active_tasks for user in estate.users.get(task, ())}
    return tuple(sorted(user for user in users if user in view.records and not estate.submitted[user].paused))


def _readers(estate: Estate, query: str) -> tuple[str, ...]:
    tasks = set(estate.fragments[query].active_tasks)
    return tuple(sorted(
        name for name, fragment in estate.fragments.items() if name != query and fragment.active_tasks
        and not tasks.isdisjoint(estate.tasks[fragment.tasks[0]].parents)))


def _figures(
    view: View, names: Iterable[str], cores: Mapping[str, tuple[float, float]], at: datetime
) -> dict[str, QueryFigures]:
    estate = view.estate
    known = sorted(name for name in names if name in cores and name in estate.fragments)
    cpu, rates = {name: _cpu(estate, [name]) for name in known}, {name: _rates(estate, name) for name in known}
    history = Kept([line for name in known for line in (*cpu[name], *rates[name])], TEN_SECONDS, at - BEFORE, at)
    return {
        name: QueryFigures(
            *cores[name], tuple(estate.fragments[name].active_tasks), _load_tasks(estate, name),
            middle(history.total(cpu[name])), middle(history.total(rates[name])))
        for name in known}


# What there was -------------------------------------------------------------------------------------------------------


class _Then:
    """The modes that would have been chosen of the queries of now at other rates, one time after the other.

    Nobody kept which modes they had: they begin with micro-batches.
    """

    def __init__(self, view: View, rows: Mapping[str, BatchFigures]) -> None:
        queries = queries_of(view, costs=costs_here(), seen={}, trigger_ms={})
        self._view = view
        refusals = refusals_in(view.reading.reports, view.estate) | {
            name: "" for name, row in rows.items() if row.real_time}
        self._able = {name: "" for name, refusal in refusals.items() if not refusal} if may_be_open() else {}
        self.queries = replace(queries, costs={
            name: BatchCost(**row.cost) for name, row in rows.items() if name in queries.costs}, before_s={})
        self._wants = [(key[0], limit, want) for key, (limit, want) in wants_of(view).items()]
        self._rates: dict[str, float] = {}
        self._opened: frozenset[str] = frozenset()  # at any time so far
        self._modes = Modes()

    def modes(self, rates: Mapping[str, float]) -> Modes:
        """What would have been chosen at these rates into the queries, in events/s; of those alone that ran then."""
        if rates.keys() == self._rates.keys() and all(
                abs(rate - self._rates[name]) <= CHANGED * self._rates[name] for name, rate in rates.items()):
            return self._modes
        self._rates = dict(rates)
        queries = replace(self.queries, costs={
            name: replace(self.queries.costs[name], rate_per_s=rate) for name, rate in rates.items()})
        wants = [want for _, _, want in self._wants if want.way.writers.keys() <= rates.keys()]
        micro = keep_modes(queries, wants, ())
        able = {name: refusal for name, refusal in self._able.items() if name in rates}
        free = choose_modes(queries, wants, able, before=self._opened, micro=micro.paced)
        self._opened |= free.open
        self._modes = self._evidence(queries, micro, free)
        return self._modes

    def _evidence(self, queries: Queries, micro: Chosen, free: Chosen) -> Modes:
        view, changes = self._view, _changes(
            self._view, {name: name in free.open for name in sorted(self._opened & queries.costs.keys())},
            {name: round(1000 * seconds) for name, seconds in free.interval_s.items()})
        limits: dict[str, list[LimitThen]] = {}
        for key, limit, want in self._wants:
            if want.key in micro.paced.expected:
                now, then = micro.paced.expected[want.key], free.paced.expected[want.key]
                limits.setdefault(key, []).append(_limit_then(
                    view.estate, key, limit, want.way, now_s=now.latency_s, then_s=then.latency_s,
                    is_missed=now.least_s is not None, is_met_then=then.least_s is None))
        names = {name for change in changes for name in (change.query, *change.readers)} & queries.costs.keys()
        return Modes(changes, _users_of(view, changes, limits), {
            name: QueryFigures(*(chosen.cores(name, queries.costs[name]) for chosen in (micro, free)))
            for name in names})


def _cpu(estate: Estate, queries: Iterable[str]) -> list[Series]:
    return [Series(QUERY, bundle.id, "cpu") for name in sorted(queries) for bundle in estate.fragments[name].queries]


def _rates(estate: Estate, query: str) -> list[Series]:
    return [Series(TASK, task, "rate_per_s") for task in _load_tasks(estate, query)]


def _load_tasks(estate: Estate, query: str) -> tuple[str, ...]:
    """The running tasks whose rate is a query's load."""
    head = estate.tasks[estate.fragments[query].tasks[0]]
    return head.parents or (head.id,)
