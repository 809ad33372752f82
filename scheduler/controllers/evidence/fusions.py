"""Evidence for defragmentation: the steps that the estate allows, and what passes there and costs, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.defragmentation import Defragmentation, Fusions
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.fusion_candidates import Candidate
from scheduler.controllers.loop_values import HOUR_S, Round
from scheduler.controllers.promised_measures import CORES, LATENCY
from scheduler.history.series import MINUTE, TEN_SECONDS
from scheduler.model.estate import Estate
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import DefragmentEvidence, Fusion, StepLoad, fusions, load_of

from .lines import Line, Lines, middle
from .world import World

BEFORE_S = 600.0  # over which what is there before a change is measured
SETTLES_S = 60.0  # a query that has just begun compiles
NO_LOAD = StepLoad(0.0)
NO_FUSION = Fusion((), "", 0)


def evidence(world: World) -> Fusions | None:
    """Every step that is possible now; None where nothing is known of what runs."""
    if not world.is_heard:
        return None
    return _fusions(world, measured_now(world, _possible(world)))


def measured_now(world: World, possible: Sequence[Candidate]) -> list[Candidate]:
    """Steps with what is measured of them."""
    measured = DefragmentEvidence(
        latency_ms=world.channel_ms, rates_per_s=world.rates_per_s,
        ages_h={name: (world.now_s - started_s) / HOUR_S for name, started_s in world.started_s.items()})
    lines = Lines(
        world.history, world.estate, possible, begin_s=world.now_s - BEFORE_S, end_s=world.now_s, grain=TEN_SECONDS)
    return [
        replace(
            candidate, load=load_of(world.estate, candidate.fusion, measured),
            cores=middle(lines.cores(candidate.tasks)), latency_ms=middle(lines.latency(candidate.dataflow)))
        for candidate in possible]


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The evidence over kept history for the present queries, from when each was there; those of then are not kept."""
    possible = _possible(world)
    started_s = world.started_s
    lines = Lines(world.history, world.estate, possible, begin_s=begin_s, end_s=end_s, grain=MINUTE)
    base, begun_s = _fusions(world, possible), _begun_s(world, possible)
    measured = [_Measured(lines, candidate) for candidate in possible]
    at_s = begin_s
    while at_s <= end_s:
        running = [
            step for step in measured
            if all(started_s.get(name, end_s) <= at_s for name in step.candidate.fusion.path)]
        without = Counter(team for team, since_s in begun_s if since_s <= at_s)
        yield Frame(at_s, replace(
            base, candidates=tuple(step.at(at_s, started_s) for step in running),
            as_few_as_can_be=tuple(sorted(without.items()))))
        at_s += Defragmentation.every_s


def effect(loop_round: Round, world: World) -> Effect | None:
    """CPU of the queries that its tasks are in by now, and the dataflow's latency, since that had settled."""
    if loop_round.changed_s is None or world.now_s <= (begin_s := loop_round.changed_s + SETTLES_S):
        return None
    estate, arguments = world.estate, loop_round.decision.arguments
    tasks, load_tasks = (tuple(arguments.get(name, "").split()) for name in ("tasks", "load_tasks"))
    if not tasks or not all(task in estate.places for task in tasks):
        return None  # what was changed has gone since
    about = Candidate(loop_round.decision.target, "", (), NO_FUSION, NO_LOAD, tasks, load_tasks)
    lines = Lines(world.history, estate, [about], begin_s=begin_s, end_s=world.now_s, grain=TEN_SECONDS)
    cores, latency, load = lines.cores(tasks), lines.latency(about.dataflow), lines.rates(load_tasks)
    end_s = world.now_s - TEN_SECONDS.step_s  # whole points alone
    return Effect(begin_s, tuple(
        MeasureSample(float(at_s), {CORES: float(cores[index]), LATENCY: float(latency[index])}, float(load[index]))
        for index, at_s in enumerate(lines.times_s) if begin_s <= at_s <= end_s))


def _possible(world: World) -> list[Candidate]:
    """Every step of the estate, once for each team whose running dataflow could ask for it; nothing is measured yet."""
    steps = fusions(
        world.estate, world.estate.fragments, task_types=world.task_types, query_cores=query_cores(world.prices),
        apart=world.apart)
    running = world.running
    return [candidate for fusion in steps for candidate in _of_teams(world.estate, running, fusion)]


def _of_teams(estate: Estate, running: Collection[str], fusion: Fusion) -> Iterator[Candidate]:
    last = estate.fragments[fusion.path[-1]]
    asking: set[str] = set()
    for user in sorted({user for task in last.active_tasks for user in estate.users.get(task, ())}):
        team = estate.submitted[user].team
        if user in running and team not in asking:
            asking.add(team)
            yield asked_by(estate, fusion, user)


def asked_by(estate: Estate, fusion: Fusion, dataflow: str) -> Candidate:
    """A step as one dataflow would ask for it; nothing is measured yet."""
    team = estate.submitted[dataflow].team
    path = [estate.fragments[name] for name in fusion.path]
    tasks = tuple(task for fragment in path for task in fragment.active_tasks)
    head = estate.tasks[path[0].tasks[0]]
    touched = {estate.submitted[user].team for task in tasks for user in estate.users.get(task, ())}
    return Candidate(
        dataflow, team, tuple(sorted(touched - {team})), fusion, NO_LOAD, tasks, head.parents or (head.id,))


def _fusions(world: World, candidates: Sequence[Candidate]) -> Fusions:
    prices = world.prices
    without = Counter(team for team, _ in _begun_s(world, candidates))
    return Fusions(
        tuple(candidates), prices, query_cores(prices), world.fusing_rule,
        as_few_as_can_be=tuple(sorted(without.items())))


def _begun_s(world: World, candidates: Sequence[Candidate]) -> list[tuple[str, float]]:
    """The beginnings of running dataflows that have no step: its team, and since when all its queries are there."""
    estate, started_s = world.estate, world.started_s
    with_steps = {candidate.dataflow for candidate in candidates}
    entries = [estate.submitted[dataflow] for dataflow in world.running if dataflow not in with_steps]
    return [
        (entry.team, max((started_s.get(estate.places[task][0], world.now_s) for task in entry.running.values()
                          if task in estate.places), default=0.0))
        for entry in entries]


class _Measured:
    """A step with what was measured of it over a range."""

    def __init__(self, lines: Lines, candidate: Candidate) -> None:
        self.candidate = candidate
        self._lines = lines
        self._rate, self._cores = lines.rates(candidate.load_tasks), lines.cores(candidate.tasks)
        self._latency = lines.latency(candidate.dataflow)
        self._crossings = [(lines.rates([stream[0]]), lines.channel(stream)) for stream in candidate.fusion.streams]

    def at(self, at_s: float, started_s: Mapping[str, float]) -> Candidate:
        """The step as it was at a moment."""
        def newest(line: Line) -> float | None:
            return self._lines.newest(line, at_s, within_s=BEFORE_S)

        rate_per_s = newest(self._rate) or 0.0
        crossings = [(newest(crossing), newest(channel)) for crossing, channel in self._crossings]
        age_h = min((at_s - started_s[name]) / HOUR_S for name in self.candidate.fusion.path)
        load = StepLoad(rate_per_s, tuple(
            (rate_per_s if per_s is None else per_s, latency_ms) for per_s, latency_ms in crossings), age_h)
        return replace(self.candidate, cores=newest(self._cores), latency_ms=newest(self._latency), load=load)
