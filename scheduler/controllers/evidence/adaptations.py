"""Evidence for adaptation: dataflows with goals, their tasks with alternates, what comes and waits, and room."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.adaptation.adaptation_port import Forecast
from scheduler.adaptation.shared_slots import AdaptationRoom
from scheduler.controllers.adapted_dataflows import STEP_S, Adaptations, AdaptedDataflow
from scheduler.controllers.alternate_adaptation import EVENT_US, EVERY_S, LACK
from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.loop_values import HOUR_S, Round
from scheduler.history.series import MINUTE, QUERY, TASK, TEN_SECONDS, Series
from scheduler.model.alternates import is_dynamic
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.ports import expect
from scheduler.performance.alternate_costs import alternate_figures
from scheduler.performance.alternates_at_work import LEAST_METERED_S, meter_key
from scheduler.simulation.elastic import Alternate, ElasticDataflow
from scheduler.simulation.problem import profit_of, value_of

from .expected_rates import (
    expected_course,
    expected_slowing,
    name_of,
    sources_of,
    told_expectations,
    told_slowing,
)
from .lines import KeptSeries, Line, MeasuredMeans
from .minute_forecasts import MinuteForecast
from .offered_bundles import offered_bundles
from .world import AdaptedElement, QueryBatches, World

POINT_S = 20.0  # over so long what is recorded is averaged
WINDOW_S = 60.0  # over so long what comes is averaged: it is expected to last where there is no forecast (WAAF)
SETTLES_S = 30.0
MOST_FRAMES = 1_500  # of a dry run
LEAST = 1e-9  # seconds for an event, or events out for one: what is less counts as that
LEAST_CORES = 0.01  # of a slot that is full: its tasks do a little all the same
OVERLOADED = "Events wait and a query works all the time, so the rates of the last seconds count."
LEAST_WORTH = 0.01  # of an alternate that is on and of which nobody knows what it is worth


def evidence(world: World) -> Adaptations | None:
    """Every running dataflow with goals, as it is by the means of the last minute, at the rates that are expected; None
    where nothing is known of what runs."""
    if not world.goals:
        return Adaptations((), world.algorithm)
    if not world.is_heard:
        return None
    figures = _Figures(world, world.goals, world.now_s - WINDOW_S, world.now_s)
    sources = {source for name in world.goals for source in sources_of(world, name)}
    nodes = {node_of(bundle.slot) for fragment in world.estate.fragments.values() for bundle in fragment.queries}
    forecasts = _Forecasts(
        world.minute_forecasts.rates(world.history, sources, world.now_s),
        world.minute_forecasts.speeds(world.history, nodes, world.now_s))
    return _adaptations(world, world.elements(), figures.recent(), forecasts)


def adapted_now(world: World, name: str) -> AdaptedDataflow | None:
    """One dataflow at present, whatever switches its tasks; None without measurements."""
    figures = _Figures(world, [name], world.now_s - WINDOW_S, world.now_s)
    return _adapted(world, name, world.elements(), figures.recent())


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The loads of the present dataflows over kept history, with the present alternates and slots."""
    figures, elements = _Figures(world, world.goals, begin_s, end_s), world.elements()
    every_s = max(EVERY_S, MINUTE.step_s * math.ceil((end_s - begin_s) / MOST_FRAMES / MINUTE.step_s))
    at_s = begin_s
    while at_s <= end_s:
        yield Frame(at_s, _adaptations(world, elements, figures.at(at_s)))
        at_s += every_s


def effect(loop_round: Round, world: World) -> Effect | None:
    """The part of what could leave that did not, and the CPU that an event took, since the switch had settled."""
    if loop_round.changed_s is None or world.now_s <= (begin_s := loop_round.changed_s + SETTLES_S):
        return None
    figures = _Figures(world, [loop_round.decision.target], begin_s, world.now_s)
    samples = []
    for at_s in figures.times_s:
        if not begin_s <= at_s <= world.now_s - TEN_SECONDS.step_s:  # whole points alone
            continue
        measured = figures.at(at_s)
        adapted = _adapted(world, loop_round.decision.target, {}, measured)
        lack = None if adapted is None else _lack(adapted, measured)
        if adapted is not None and lack is not None:
            figures_then = {LACK: lack} | ({} if adapted.event_us is None else {EVENT_US: adapted.event_us})
            samples.append(MeasureSample(at_s, figures_then, load=sum(adapted.rates_per_s.values())))
    return Effect(begin_s, tuple(samples))


@dataclass(frozen=True, slots=True)
class AdaptationPoint:
    """A dataflow at a moment: throughput Ω, value Γ, what its queries cost an hour, and profit Θ as if that lasted.
    None where it was not measured."""

    throughput: float | None
    value: float | None
    per_hour: float | None
    profit: float | None


def points_now(world: World) -> dict[str, AdaptationPoint]:
    """The present result of each running dataflow with goals, by the means of the newest points."""
    measured = _Figures(world, world.goals, world.now_s - POINT_S, world.now_s).recent()
    points, elements = {}, world.elements()
    for name in world.goals:
        if (adapted := _adapted(world, name, elements, measured)) is None:
            continue
        lack, problem, value = _lack(adapted, measured), adapted.problem, value_of(adapted.elastic, adapted.active)
        per_hour = None if adapted.event_us is None else (
            adapted.event_us / 1e6 * sum(adapted.rates_per_s.values()) * problem.largest.per_hour)
        points[name] = AdaptationPoint(
            None if lack is None else 1 - lack, value, per_hour, None if per_hour is None else profit_of(
                adapted.elastic, problem.goal, value=value, cost=per_hour * problem.hours))
    return points


@dataclass(frozen=True)
class _Forecasts:
    """Expectations: rates by source, and the speed of cores by node."""

    rates: Mapping[str, MinuteForecast]
    speeds: Mapping[str, MinuteForecast]


class _Figures:
    """Kept figures of some dataflows over a time: of the tasks of their queries, of what these read, and of all queries
    on their slots. Both ends of the time are part of it."""

    def __init__(self, world: World, names: Collection[str], begin_s: float, end_s: float) -> None:
        estate, grain = world.estate, MINUTE if end_s - begin_s > HOUR_S else TEN_SECONDS
        queries = {estate.places[task][0] for name in names if name in estate.submitted
                   for task in estate.submitted[name].running.values() if task in estate.places}
        tasks = {task for query in queries for task in estate.fragments[query].active_tasks}
        tasks |= {parent for task in tasks for parent in estate.tasks[task].parents}
        slots = {bundle.slot for query in queries for bundle in estate.fragments[query].queries}
        bundles = [bundle.id for fragment in estate.fragments.values() for bundle in fragment.queries
                   if bundle.slot in slots]
        self._series = {
            "rate_per_s": {task: Series(TASK, task, "rate_per_s") for task in sorted(tasks)},
            **{metric: {name: Series(QUERY, name, metric) for name in bundles}
               for metric in ("cpu", "backlog_blocks", "trigger_ms")}}
        every = [line for of_metric in self._series.values() for line in of_metric.values()]
        self._kept_series = KeptSeries(world.history, every, grain, begin_s, end_s)
        self.times_s = [float(at_s) for at_s in self._kept_series.times_s]
        self._lines = {
            metric: {name: self._kept_series.total([line]) for name, line in of_metric.items()}
            for metric, of_metric in self._series.items()}

    def recent(self) -> MeasuredMeans:
        """Means over the whole time, and what waits as it was last."""
        return self._measured(0, len(self.times_s))

    def at(self, at_s: float) -> MeasuredMeans:
        """The figures at a moment."""
        index = min(max(0, self._kept_series.index(at_s)), max(0, len(self.times_s) - 1))
        return self._measured(index, index + 1)

    def _measured(self, first: int, last: int) -> MeasuredMeans:
        def measured_lines(metric: str) -> dict[str, Line]:
            cut = {name: line[first:last] for name, line in self._lines[metric].items()}
            return {name: some for name, line in cut.items() if len(some := line[np.isfinite(line)])}

        return MeasuredMeans(
            {name: float(line.mean()) for name, line in measured_lines("rate_per_s").items()},
            {name: float(line.mean()) for name, line in measured_lines("cpu").items()},
            {name: float(line[-1]) for name, line in measured_lines("backlog_blocks").items()},
            {name: float(line[-1]) / 1000 for name, line in measured_lines("trigger_ms").items()})


def _adaptations(
    world: World, elements: Mapping[str, AdaptedElement], measured: MeasuredMeans,
    forecasts: _Forecasts | None = None,
) -> Adaptations:
    deciders = _deciders(world, elements)
    dataflows = (_adapted(
        world, name, {task: element for task, element in elements.items() if deciders.get(task) == name}, measured,
        forecasts=forecasts)
        for name in sorted(world.goals))
    return Adaptations(
        tuple(dataflow for dataflow in dataflows if dataflow is not None), world.algorithm, world.prices.currency)


def _deciders(world: World, elements: Mapping[str, AdaptedElement]) -> dict[str, str]:
    """The dataflow that decides about each running task: of those with goals that need it, the one that wants the most
    throughput."""
    users = world.estate.users
    asking = {task: [user for user in users.get(task, ()) if user in world.goals and user in world.running]
              for task in elements}
    return {task: max(names, key=lambda name: (world.goals[name].throughput, name))
            for task, names in asking.items() if names}


def _adapted(
    world: World, name: str, elements: Mapping[str, AdaptedElement], measured: MeasuredMeans,
    forecasts: _Forecasts | None = None,
) -> AdaptedDataflow | None:
    """A dataflow as adaptation looks at it; None if it is paused, or without measurements."""
    estate, submitted = world.estate, world.estate.submitted.get(name)
    if submitted is None or name not in world.running or name not in world.goals:
        return None
    homes = {task: estate.fragments[estate.places[task][0]] for task in submitted.running.values()
             if task in estate.places}
    tasks = [task for task, home in homes.items() if task in home.active_tasks]
    parents = {task: [parent for parent in estate.tasks[task].parents if parent in homes] for task in tasks}
    sources = [task for task in tasks if not parents[task]]
    if not tasks or any(task not in measured.out_per_s for task in sources) or any(
            estate.tasks[task].type not in world.task_types for task in tasks):
        return None
    expect(world.prices.meters, [meter_key(task) for task in tasks])
    alternates_of = {task: _ways(world, task, elements.get(task), measured) for task in tasks}
    switchable = {task for task, (alternates, _) in alternates_of.items() if len(alternates) > 1}
    left_alone = tuple(f"{name_of(submitted.running, task)} stays as it is: {element.why_not}."
                 for task, element in elements.items() if task in alternates_of and element.why_not)
    is_overloaded = forecasts is not None and name in world.overloaded
    newest = world.rates_per_s if is_overloaded else {}  # the mean of the last minute is of less than comes now
    rates_now = {task: max(_offered(world, task, homes[task], measured), newest.get(task, 0.0)) for task in sources}
    courses = {} if forecasts is None else {
        task: expected_course(forecasts.rates.get(task), per_s, world.now_s) for task, per_s in rates_now.items()}
    expected = rates_now | {task: sum(course) / len(course) for task, course in courses.items()}
    bundles = None if forecasts is None else offered_bundles(
        world, name, [expected[task] for task in sources], list(homes.values()), measured)
    changeable = switchable if bundles is None else set(tasks)
    teams = {task: {estate.submitted[user].team for user in estate.users.get(task, ())} for task in changeable}
    rates = {} if forecasts is None else forecasts.rates
    slowing = {} if forecasts is None else {
        node: expected_slowing(forecast, world.now_s) for node, forecast in forecasts.speeds.items()}
    errors = [rates[task].error for task in sources if task in rates]
    return AdaptedDataflow(
        name, submitted.team, world.goals[name],
        ElasticDataflow(
            {task: alternates for task, (alternates, _) in alternates_of.items()},
            tuple((parent, task) for task in tasks for parent in parents[task] if parent in alternates_of)),
        {task: on for task, (_, on) in alternates_of.items()},
        {task: name_of(submitted.running, task) for task in switchable},
        {task: tuple(sorted(users - {submitted.team})) for task, users in teams.items()},
        expected, _waiting({task: homes[task] for task in tasks}, parents, measured),
        (room := _room(world, homes, tasks, measured, slowing)),
        max(world.prices.slot_hour(node_of(bundle.slot)) for home in homes.values() for bundle in home.queries),
        _event_us(homes.values(), sources, measured), left_alone,
        Forecast(courses, error=max(errors, default=0.0)) if courses else None,
        (*((OVERLOADED,) if is_overloaded else ()), *told_expectations(submitted.running, rates_now, courses, rates),
         *told_slowing(
             {} if forecasts is None else forecasts.speeds, {node_of(slot) for slot in room.cores}, world.now_s)),
        bundles)


def _event_us(homes: Iterable[Fragment], sources: Sequence[str], measured: MeasuredMeans) -> float | None:
    """CPU of queries for each event from outside, in µs; None where one of them was not measured."""
    bundles = {bundle.id for home in homes for bundle in home.queries}
    per_s = sum(measured.out_per_s[task] for task in sources)
    if per_s <= LEAST or not bundles <= measured.cores.keys():
        return None
    return 1e6 * sum(measured.cores[name] for name in bundles) / per_s


def _ways(
    world: World, task: str, element: AdaptedElement | None, measured: MeasuredMeans
) -> tuple[dict[str, Alternate], str]:
    """The alternates of a running task that may be on, and the one that is; one that has none has one way."""
    running = world.estate.tasks[task]
    if not is_dynamic(running.type):
        kind = world.task_types[running.type]
        return {"": Alternate(
            "", 1.0, max(LEAST, world.costs.task_event_us(kind) / 1e6),
            max(LEAST, _selectivity(world, task, measured, kind.selectivity)))}, ""
    figures = alternate_figures(world.estate, task, task_types=world.task_types, prices=world.prices)
    on = next(
        figure.name for figure in figures if figure.is_on)
    may = {on} if element is None or element.why_not else {on, *(element.allowed & element.worth.keys())}
    worth = {} if element is None else element.worth
    most = max(worth.values(), default=1.0)
    return {
        figure.name: Alternate(
            figure.name, min(1.0, max(LEAST_WORTH, worth.get(figure.name, figure.worth or LEAST_WORTH) / (
                most if figure.name in worth else 1.0))),
            max(LEAST, figure.event_s), max(LEAST, figure.selectivity))
        for figure in figures if figure.name in may}, on


def _selectivity(world: World, task: str, measured: MeasuredMeans, declared: float) -> float:
    """Events out for each event in, as metered, or as measured within its query; of a source 1. What the first task of
    a query gives is no figure for it: events may wait there."""
    parents = world.estate.tasks[task].parents
    if not parents:
        return 1.0
    meter = world.prices.meters.get(meter_key(task))
    if meter is not None and meter.seconds >= LEAST_METERED_S and meter.in_per_s and meter.out_per_s is not None:
        return meter.out_per_s / meter.in_per_s
    coming = sum(measured.out_per_s.get(parent, 0.0) for parent in parents)
    is_within = world.estate.fragments[world.estate.places[task][0]].tasks[0] != task
    return measured.out_per_s[task] / coming if (
        is_within and coming > LEAST and task in measured.out_per_s) else declared


def _offered(world: World, task: str, home: Fragment, measured: MeasuredMeans) -> float:
    """Events a second that a source would make: where a full channel holds it back, what it was planned with at least.
    """
    measured_per_s, planned = measured.out_per_s[task], world.estate.tasks[task].rate_per_s or 0.0
    reports = dict(world.reports.queries())
    is_held = any(getattr(reports.get(bundle.id), "throttled_by", None) for bundle in home.queries)
    return max(measured_per_s, planned) if is_held else measured_per_s


def _waiting(
    homes: Mapping[str, Fragment], parents: Mapping[str, Sequence[str]], measured: MeasuredMeans
) -> dict[str, float]:
    """Events that wait for the first task of each query: its blocks hold those of one of its intervals each."""
    waiting = {}
    for task, home in homes.items():
        if home.tasks[0] != task:
            continue
        coming = sum(measured.out_per_s.get(parent, 0.0) for parent in parents[task]) or measured.out_per_s.get(
            task, 0.0)
        blocks = max((measured.blocks.get(bundle.id, 0.0) for bundle in home.queries), default=0.0)
        apart_s = max((measured.apart_s.get(bundle.id, 0.0) for bundle in home.queries), default=0.0)
        # The newest block is on its way, not in wait.
        waiting[task] = max(0.0, blocks - 1.0) * apart_s * coming
    return waiting


def _room(
    world: World, homes: Mapping[str, Fragment], tasks: Collection[str], measured: MeasuredMeans,
    slowing: Mapping[str, Sequence[float]],
) -> AdaptationRoom:
    """The room of slots for some tasks: all but what drivers, batches, and other queries and tasks take there; less
    where their cores are expected to become slower. In seconds of a core as fast as now."""
    fragments = {home.id: home for home in homes.values()}
    batches = world.batches(list(fragments))
    taken: dict[str, float] = {}
    for fragment in world.estate.fragments.values():
        total = sum(bundle.weight for bundle in fragment.queries) or 1.0
        for bundle in fragment.queries:
            cores = measured.cores.get(bundle.id, 0.0)
            if fragment.id in fragments:
                cores = _beside_events(world, fragment, batches.get(fragment.id), tasks, measured)
                cores *= bundle.weight / total
            taken[bundle.slot] = taken.get(bundle.slot, 0.0) + cores
    parts: dict[str, dict[str, float]] = {task: {} for task in tasks}
    for task in tasks:
        total = sum(bundle.weight for bundle in homes[task].queries) or 1.0
        for bundle in homes[task].queries:
            parts[task][bundle.slot] = parts[task].get(bundle.slot, 0.0) + bundle.weight / total
    ahead = {
        slot: tuple(max(LEAST_CORES, part - world.costs.slot_cores - taken.get(slot, 0.0))
                    for part in slowing.get(node_of(slot), (1.0,)))
        for slot in sorted({slot for of_task in parts.values() for slot in of_task})}
    return AdaptationRoom({slot: sum(course) / len(course) for slot, course in ahead.items()}, parts, ahead)


def _beside_events(
    world: World, fragment: Fragment, batches: QueryBatches | None, tasks: Collection[str], measured: MeasuredMeans
) -> float:
    """Cores that a query takes for its batches, whatever is in them, and for tasks of others in it."""
    cost = None if batches is None else batches.cost
    fixed = 0.0 if cost is None or batches is None else cost.batch_cpu_s / batches.interval_s
    others = [task for task in fragment.active_tasks if task not in tasks and not is_dynamic(
        world.estate.tasks[task].type) and world.estate.tasks[task].type in world.task_types]
    return fixed + sum(
        measured.out_per_s.get(parent, 0.0) * world.costs.task_event_us(
            world.task_types[world.estate.tasks[task].type]) / 1e6
        for task in others for parent in world.estate.tasks[task].parents)


def _lack(dataflow: AdaptedDataflow, measured: MeasuredMeans) -> float | None:
    """1 − Ω as measured: of what could leave at the outputs, with what waits, the part that did not."""
    elastic = dataflow.elastic
    most: dict[str, float] = {}
    for task in elastic.upstream_first:
        most[task] = (dataflow.waiting.get(task, 0.0) / STEP_S + dataflow.rates_per_s.get(task, 0.0) + sum(
            most[parent] for parent in elastic.parents[task])) * elastic.tasks[task][dataflow.active[task]].selectivity
    if any(task not in measured.out_per_s for task in elastic.outputs):
        return None
    parts = [min(1.0, measured.out_per_s[task] / most[task]) if most[task] > LEAST else 1.0
             for task in elastic.outputs]
    return 1.0 - sum(parts) / len(parts)
