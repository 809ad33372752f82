"""Evidence for the controller of open batches: the modes that the pacer would choose, and what they are to bring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.controllers.batch_opening import LimitThen, ModeChange, Modes, QueryFigures, UserOfQueries
from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.loop_values import Round
from scheduler.controllers.promised_measures import CORES, LIMITED
from scheduler.history.series import MINUTE, QUERY, TASK, TEN_SECONDS, Series
from scheduler.latency.limits_met import IMPOSSIBLE
from scheduler.latency.pacing import Queries
from scheduler.latency.real_time import BatchModes, choose_modes, keep_modes
from scheduler.latency.wanted_modes import WantedModes
from scheduler.latency.ways import Way, way_of
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit

from .limited import LimitSeries, measured_by
from .lines import KeptSeries, middle
from .world import World

BEFORE_S = 300.0  # over which CPU is measured before a change
SETTLES_S = 30.0  # after a restart
FRAMES_EVERY_S = 300.0
CHANGED = 0.1  # relative: rates that differ by less from those of the last frame lead to the same


def evidence(world: World) -> Modes | None:
    """The modes that would be chosen now and are not in force; None where nothing was noted lately."""
    modes = world.wanted_modes()
    if modes is None or not modes.opens:
        return None if modes is None else Modes()
    return _modes(world, modes) if world.is_heard else None


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The modes that would have been chosen at past rates, for the present queries, costs and limits."""
    then = _Then(world)
    rates = {name: _rates(world.estate, name) for name in then.queries.costs}
    history = KeptSeries(world.history, [line for lines in rates.values() for line in lines], MINUTE, begin_s, end_s)
    measured = {name: history.total(lines) for name, lines in rates.items()}
    at_s = begin_s
    while at_s <= end_s:
        index = history.index(at_s)
        yield Frame(at_s, then.modes({
            name: float(line[index]) for name, line in measured.items()
            if index < len(line) and np.isfinite(line[index])}))
        at_s += FRAMES_EVERY_S


def effect(loop_round: Round, world: World) -> Effect | None:
    """CPU of the queries that its tasks are in by now, and the latency of its limit, since they had started again."""
    end_s = world.now_s - TEN_SECONDS.step_s  # whole points alone
    if loop_round.changed_s is None or end_s <= (begin_s := loop_round.changed_s + SETTLES_S):
        return None
    estate, arguments = world.estate, loop_round.decision.arguments
    tasks, loads = (arguments.get(name, "").split() for name in ("tasks", "load_tasks"))
    if not all(task in estate.places for task in tasks):
        return None  # what was changed has gone since
    cpu, limited = _cpu(estate, {estate.places[task][0] for task in tasks}), LimitSeries.of(arguments, estate)
    load = [Series(TASK, task, "rate_per_s") for task in loads]
    history = KeptSeries(world.history, [*cpu, *load, *limited.all], TEN_SECONDS, begin_s, end_s)
    lines = {CORES: history.total(cpu), LIMITED: limited.latency_ms(history)}
    at_load = history.total(load)
    return Effect(begin_s, tuple(
        MeasureSample(
            float(moment_s), {measure: float(line[index]) for measure, line in lines.items()}, float(at_load[index]))
        for index, moment_s in enumerate(history.times_s) if begin_s <= moment_s <= end_s))


# The evidence ---------------------------------------------------------------------------------------------------------


def _modes(world: World, modes: WantedModes) -> Modes:
    estate = world.estate
    changes = _changes(
        estate, {name: is_open for name, is_open in modes.opens.items() if name in estate.fragments},
        modes.trigger_ms)
    users = {user for change in changes for user in change.users}
    limits: dict[str, list[LimitThen]] = {}
    for status in world.limit_statuses():
        key, limit = status.dataflow, status.limit
        then = modes.limits.get((key, status.number)) if key in users else None
        way = None if then is None else way_of(estate, key, limit)
        if then is not None and way:
            limits.setdefault(key, []).append(_limit_then(
                estate, key, limit, way, now_s=status.expected_s if status.least_s is None else status.least_s,
                then_s=then[0], is_missed=status.state == IMPOSSIBLE, measured_s=status.measured_s))
    names = {name for change in changes for name in (change.query, *change.readers)}
    return Modes(changes, _users_of(estate, changes, limits), _figures(world, names, modes.cores))


def _changes(estate: Estate, opens: Mapping[str, bool], trigger_ms: Mapping[str, int]) -> tuple[ModeChange, ...]:
    return tuple(
        ModeChange(name, is_open, _users(estate, name), trigger_ms[name], _readers(estate, name))
        for name, is_open in opens.items())


def _limit_then(
    estate: Estate, dataflow: str, limit: LatencyLimit, way: Way, *, now_s: float, then_s: float, is_missed: bool,
    measured_s: float | None = None,
) -> LimitThen:
    return LimitThen(
        limit.words, limit.limit_s, now_s, then_s, is_missed,
        frozenset(way.writers.keys() - way.written_by), measured_s, measured_by(estate, dataflow, limit))


def _users_of(
    estate: Estate, changes: Iterable[ModeChange], limits: Mapping[str, Sequence[LimitThen]]
) -> dict[str, UserOfQueries]:
    return {
        name: UserOfQueries(name, estate.submitted[name].team, tuple(limits.get(name, ())))
        for name in {user for change in changes for user in change.users}}


def _users(estate: Estate, query: str) -> tuple[str, ...]:
    """The dataflows that a query works for now."""
    users = {user for task in estate.fragments[query].active_tasks for user in estate.users.get(task, ())}
    return tuple(sorted(user for user in users if not estate.submitted[user].paused))


def _readers(estate: Estate, query: str) -> tuple[str, ...]:
    tasks = set(estate.fragments[query].active_tasks)
    return tuple(sorted(
        name for name, fragment in estate.fragments.items() if name != query and fragment.active_tasks
        and not tasks.isdisjoint(estate.tasks[fragment.tasks[0]].parents)))


def _figures(
    world: World, names: Iterable[str], cores: Mapping[str, tuple[float, float]]
) -> dict[str, QueryFigures]:
    estate, now_s = world.estate, world.now_s
    queries = sorted(name for name in names if name in cores and name in estate.fragments)
    cpu, rates = {name: _cpu(estate, [name]) for name in queries}, {name: _rates(estate, name) for name in queries}
    history = KeptSeries(
        world.history, [line for name in queries for line in (*cpu[name], *rates[name])], TEN_SECONDS, now_s - BEFORE_S,
        now_s)
    return {
        name: QueryFigures(
            *cores[name], tuple(estate.fragments[name].active_tasks), _load_tasks(estate, name),
            middle(history.total(cpu[name])), middle(history.total(rates[name])))
        for name in queries}


# What there was -------------------------------------------------------------------------------------------------------


class _Then:
    """The modes that would have been chosen of the queries of now at other rates, one time after the other.

    Nobody kept which modes they had: they begin with micro-batches.
    """

    def __init__(self, world: World) -> None:
        facts = world.pacing_facts()
        self._estate, self._wants = world.estate, facts.wants
        self._able = {name: "" for name, refusal in facts.refusals.items() if not refusal}
        self.queries = replace(facts.queries, before_s={})
        self._rates: dict[str, float] = {}
        self._opened: frozenset[str] = frozenset()  # at any time so far
        self._modes = Modes()

    def modes(self, rates: Mapping[str, float]) -> Modes:
        """The modes that would have been chosen at these rates into the queries, in events/s; of those alone that ran
        then."""
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

    def _evidence(self, queries: Queries, micro: BatchModes, free: BatchModes) -> Modes:
        estate, changes = self._estate, _changes(
            self._estate, {name: name in free.open for name in sorted(self._opened & queries.costs.keys())},
            {name: round(1000 * seconds) for name, seconds in free.interval_s.items()})
        limits: dict[str, list[LimitThen]] = {}
        for key, limit, want in self._wants:
            if want.key in micro.paced.expected:
                now, then = micro.paced.expected[want.key], free.paced.expected[want.key]
                limits.setdefault(key, []).append(_limit_then(
                    estate, key, limit, want.way, now_s=now.latency_s, then_s=then.latency_s,
                    is_missed=now.least_s is not None))
        names = {name for change in changes for name in (change.query, *change.readers)} & queries.costs.keys()
        return Modes(changes, _users_of(estate, changes, limits), {
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
