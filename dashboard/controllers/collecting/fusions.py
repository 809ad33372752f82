"""What defragmentation is told: the steps that the estate allows, and what passes there and costs, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard import jobs
from dashboard.catalog import lifecycle as dataflows
from dashboard.controllers.collecting.lines import Line, Lines, middle
from dashboard.controllers.models import RoundRow
from dashboard.operations.models import FragmentRow
from dashboard.operations.slow_queries import cut_tasks
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from dashboard.plans.evidence import channel_latency_ms, rule
from dashboard.plans.prices import prices_in_force
from scheduler.controllers.defragmentation import CORES, LATENCY, Candidate, Defragmentation, Fusions
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.protocol import Effect, Sample
from scheduler.controllers.values import Round
from scheduler.history.series import MINUTE, TEN_SECONDS
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import Evidence, Fusion, Load, fusions, load_of

BEFORE = timedelta(minutes=10)  # over which what is there before a change is measured
SETTLES = timedelta(minutes=1)  # a query that has just begun compiles
NO_LOAD = Load(0.0)


def evidence(at: datetime) -> Fusions | None:
    """Every step that is possible now; None where nothing is known of what runs."""
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    return _fusions(view, measured_now(view, _possible(view), at))


def measured_now(view: View, possible: Sequence[Candidate], at: datetime) -> list[Candidate]:
    """Steps with what is measured of them."""
    flows = view.reading.flows
    measured = Evidence(
        latency_ms=channel_latency_ms(flows), ages_h=_ages_h(at),
        rates_per_s={task_id: flow.rate_per_s for task_id, flow in flows.tasks.items()})
    lines = Lines(view.estate, possible, begin=at - BEFORE, end=at, grain=TEN_SECONDS)
    return [
        replace(
            candidate, load=load_of(view.estate, candidate.fusion, measured),
            cores=middle(lines.cores(candidate.tasks)), latency_ms=middle(lines.latency(candidate.dataflow)))
        for candidate in possible]


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """What there was to decide by, of the queries of now, from when each was there; those of then are not kept."""
    view = view_for(EVERYTHING)
    possible = _possible(view)
    started = dict(FragmentRow.objects.values_list("pk", "started_at"))
    lines = Lines(view.estate, possible, begin=begin, end=end, grain=MINUTE)
    base = _fusions(view, possible)
    measured = [_Measured(lines, candidate) for candidate in possible]
    at = begin
    while at <= end:
        running = [
            step for step in measured if all(started.get(name, end) < at for name in step.candidate.fusion.path)]
        yield Frame(at.timestamp(), replace(base, candidates=tuple(step.at(at, started) for step in running)))
        at += timedelta(seconds=Defragmentation.every_s)


def effect(turn: Round, row: RoundRow, at: datetime) -> Effect | None:
    """CPU of the queries that its tasks are in by now, and the dataflow's latency, since that had settled."""
    begin = row.changed + SETTLES
    if at <= begin:
        return None
    estate = view_for(EVERYTHING).estate
    tasks, load_tasks = (tuple(turn.decision.arguments.get(name, "").split()) for name in ("tasks", "load_tasks"))
    if not tasks or not all(task in estate.places for task in tasks):
        return None  # what was changed has gone since
    about = Candidate(turn.decision.target, "", (), Fusion((), "", 0), NO_LOAD, tasks, load_tasks)
    lines = Lines(estate, [about], begin=begin, end=at, grain=TEN_SECONDS)
    cores, latency, load = lines.cores(tasks), lines.latency(about.dataflow), lines.rates(load_tasks)
    begin_s, end_s = begin.timestamp(), at.timestamp() - TEN_SECONDS.step_s  # whole points alone
    return Effect(begin_s, tuple(
        Sample(float(at_s), {CORES: float(cores[index]), LATENCY: float(latency[index])}, float(load[index]))
        for index, at_s in enumerate(lines.times_s) if begin_s <= at_s <= end_s))


def _possible(view: View) -> list[Candidate]:
    """Every step of the estate, once for each team whose running dataflow could ask for it; nothing is measured yet."""
    steps = fusions(
        view.estate, view.estate.fragments, task_types=jobs.task_types(), query_cores=query_cores(prices_in_force()),
        apart=cut_tasks())
    return [candidate for fusion in steps for candidate in _of_teams(view, fusion)]


def _of_teams(view: View, fusion: Fusion) -> Iterator[Candidate]:
    estate, last = view.estate, view.estate.fragments[fusion.path[-1]]
    asking: set[str] = set()
    for user in sorted({user for task in last.active_tasks for user in estate.users.get(task, ())}):
        record, team = view.records.get(user), estate.submitted[user].team
        if record is None or record.status != dataflows.RUNNING or team in asking:
            continue
        asking.add(team)
        yield asked_by(view, fusion, user)


def asked_by(view: View, fusion: Fusion, dataflow: str) -> Candidate:
    """A step as one dataflow would ask for it; nothing is measured yet."""
    estate, team = view.estate, view.estate.submitted[dataflow].team
    path = [estate.fragments[name] for name in fusion.path]
    tasks = tuple(task for fragment in path for task in fragment.active_tasks)
    head = estate.tasks[path[0].tasks[0]]
    touched = {estate.submitted[user].team for task in tasks for user in estate.users.get(task, ())}
    return Candidate(
        dataflow, team, tuple(sorted(touched - {team})), fusion, NO_LOAD, tasks, head.parents or (head.id,))


def _fusions(view: View, candidates: Sequence[Candidate]) -> Fusions:
    tariff = prices_in_force()
    with_steps = {candidate.dataflow for candidate in candidates}
    without = Counter(
        record.team.slug for dataflow_id, record in view.records.items()
        if dataflow_id not in with_steps and record.status == dataflows.RUNNING)
    return Fusions(
        tuple(candidates), tariff, query_cores(tariff), rule(), as_few_as_can_be=tuple(sorted(without.items())))


def _ages_h(at: datetime) -> dict[str, float]:
    return {
        name: (at - started).total_seconds() / 3600
        for name, started in FragmentRow.objects.values_list("pk", "started_at")}


class _Measured:
    """A step with what was measured of it over a range."""

    def __init__(self, lines: Lines, candidate: Candidate) -> None:
        self.candidate = candidate
        self._lines = lines
        self._rate, self._cores = lines.rates(candidate.load_tasks), lines.cores(candidate.tasks)
        self._latency = lines.latency(candidate.dataflow)
        self._crossings = [(lines.rates([stream[0]]), lines.channel(stream)) for stream in candidate.fusion.streams]

    def at(self, at: datetime, started: Mapping[str, datetime]) -> Candidate:
        """The step as it was at a moment."""
        def newest(line: Line) -> float | None:
            return self._lines.newest(line, at.timestamp(), within_s=BEFORE.total_seconds())

        rate_per_s = newest(self._rate) or 0.0
        crossings = [(newest(crossing), newest(channel)) for crossing, channel in self._crossings]
        age_h = min((at - started[name]).total_seconds() / 3600 for name in self.candidate.fusion.path)
        load = Load(rate_per_s, tuple(
            (rate_per_s if per_s is None else per_s, latency_ms) for per_s, latency_ms in crossings), age_h)
        return replace(self.candidate, cores=newest(self._cores), latency_ms=newest(self._latency), load=load)
