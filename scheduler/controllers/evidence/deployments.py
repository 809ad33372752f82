"""Evidence for deployment: what runs where and exchanges what, who may ask for moves, and what moved lately."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from scheduler.controllers.controller_port import Effect, MeasureSample
from scheduler.controllers.deploying import SLOT, TRAFFIC, Asker, Deploying, Deployments, resting_tasks
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.fusion_candidates import Candidate
from scheduler.controllers.loop_values import DAY_S, Round
from scheduler.deployment.queues import grows
from scheduler.history.points import grid
from scheduler.history.series import MINUTE, QUERY, TEN_SECONDS, Series

from . import fusions
from .fusions import BEFORE_S, NO_FUSION, NO_LOAD
from .lines import Lines, middle
from .world import World

MOST_OF_A_TEAM = 10  # dataflows of a query that may ask for its move
LEAST_RATE = 1e-6  # events/s by which a rate is divided at the least


def evidence(world: World) -> Deployments | None:
    """The present deployment, by the medians of the last minutes; None where nothing is known of what runs."""
    if not world.is_heard:
        return None
    askers, now_s = _askers(world), world.now_s
    lines = Lines(
        world.history, world.estate, _candidates(askers), begin_s=now_s - BEFORE_S, end_s=now_s, grain=TEN_SECONDS)
    measured = {
        query: tuple(replace(
            asker, latency_ms=middle(lines.latency(asker.dataflow)), load_per_s=middle(lines.rates(asker.load_tasks)))
            for asker in of_query)
        for query, of_query in askers.items()}
    cores = {query: middle(lines.cores(of_query[0].tasks)) for query, of_query in askers.items()}
    cores_measured = {query: value for query, value in cores.items() if value is not None}
    return _deployments(world, measured, cores_measured, _resting_queries(world), _behind(world))


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """The loads of the present queries over kept history, on their present slots; where others were is not kept."""
    askers = _askers(world)
    lines = Lines(world.history, world.estate, _candidates(askers), begin_s=begin_s, end_s=end_s, grain=MINUTE)
    by_query = {query: lines.cores(of_query[0].tasks) for query, of_query in askers.items()}
    base = _deployments(world, askers, {}, frozenset(), frozenset())
    at_s = begin_s
    while at_s <= end_s:
        newest = {query: lines.newest(line, at_s, within_s=BEFORE_S) for query, line in by_query.items()}
        bundles = {
            name: replace(bundle, cores=newest[name] or 0.0) if name in newest else bundle
            for name, bundle in base.deployment.bundles.items()}
        yield Frame(at_s, replace(base, deployment=replace(base.deployment, bundles=bundles)))
        at_s += Deploying.every_s


def effect(loop_round: Round, world: World) -> Effect | None:
    """The dataflow's latency, and the CPU of the slot that was left or the traffic with other nodes, since the move had
    settled."""
    measured = fusions.effect(loop_round, world)
    if measured is None or not measured.samples:
        return measured
    promised = {bound.measure for bound in loop_round.decision.promise.bounds}
    figures = {
        measure: read(loop_round, world, measured.begin_s)
        for measure, read in ((SLOT, _left_slot), (TRAFFIC, _traffic))
        if measure in promised}
    return replace(measured, samples=tuple(
        MeasureSample(sample.at_s, {**sample.values, **{
            measure: by_s.get(int(sample.at_s), math.nan) for measure, by_s in figures.items()}}, sample.load)
        for sample in measured.samples))


def _left_slot(loop_round: Round, world: World, since_s: float) -> dict[int, float]:
    """The cores of the queries on the left slot, by second: what its driver takes is in no promise."""
    slot = loop_round.decision.arguments.get("source", "")
    queries = [
        Series(QUERY, bundle.id, "cpu") for fragment in world.estate.fragments.values() if fragment.active_tasks
        for bundle in fragment.queries if bundle.slot == slot]
    begin_s, end_s = int(since_s), int(world.now_s)
    points = world.history.read(queries, TEN_SECONDS, begin_s=begin_s, end_s=end_s)
    first_s, count = grid(begin_s, end_s, TEN_SECONDS.step_s)
    cores = np.zeros(count)
    for query in queries:
        cores += points[query].values if query in points else math.nan
    return {first_s + number * TEN_SECONDS.step_s: float(value) for number, value in enumerate(cores)}


def _traffic(loop_round: Round, world: World, since_s: float) -> dict[int, float]:
    """Bytes a second between the queries that moved and those on other nodes, by second: what was sent, as it would be
    at the load of the promise."""
    arguments, load = loop_round.decision.arguments, loop_round.decision.promise.load
    sent = world.bytes_between_nodes(arguments.get("tasks", "").split())
    if sent is None:
        return {}
    load_tasks = arguments.get("load_tasks", "").split()
    about = Candidate(loop_round.decision.target, "", (), NO_FUSION, NO_LOAD, (), (*sent, *load_tasks))
    lines = Lines(world.history, world.estate, [about], begin_s=since_s, end_s=world.now_s, grain=TEN_SECONDS)
    rates = sum((size * lines.rates([task]) for task, size in sent.items()), np.zeros(len(lines.times_s)))
    if load is not None:
        rates = rates * load / np.maximum(lines.rates(load_tasks), LEAST_RATE)
    return {int(at_s): float(rate) for at_s, rate in zip(lines.times_s, rates, strict=True)}


def _askers(world: World) -> dict[str, tuple[Asker, ...]]:
    """The running dataflows that may ask for the move of each query that no schedule divides, some of each team: of
    several queries that go together one is needed that runs in all."""
    estate, running = world.estate, world.running
    askers_of: dict[str, tuple[Asker, ...]] = {}
    for name, fragment in estate.fragments.items():
        tasks = fragment.active_tasks
        if fragment.divided or not tasks:
            continue
        users = sorted({user for task in tasks for user in estate.users.get(task, ())})
        teams = {estate.submitted[user].team for user in users}
        askers: list[Asker] = []
        by_team: Counter[str] = Counter()
        for user in users:
            team = estate.submitted[user].team
            if user in running and by_team[team] < MOST_OF_A_TEAM:
                by_team[team] += 1
                head = estate.tasks[tasks[0]]
                askers.append(Asker(
                    user, team, tuple(sorted(teams - {team})), tuple(tasks), head.parents or (head.id,)))
        if askers:
            askers_of[name] = tuple(askers)
    return askers_of


def _candidates(askers: Mapping[str, tuple[Asker, ...]]) -> list[Candidate]:
    """Candidates with the names of their kept series."""
    return [
        Candidate(asker.dataflow, asker.team, asker.touched, NO_FUSION, NO_LOAD, asker.tasks, asker.load_tasks)
        for of_query in askers.values() for asker in of_query]


def _deployments(
    world: World, askers: Mapping[str, tuple[Asker, ...]], cores: Mapping[str, float], resting: frozenset[str],
    behind: frozenset[str],
) -> Deployments:
    return Deployments(
        world.deployment(cores, behind), askers, resting, thresholds=world.thresholds,
        slot_price=world.prices.core_hour, currency=world.prices.currency)


def _behind(world: World) -> frozenset[str]:
    """Queries for which ever more events wait, by what the broker held for them in the last minutes."""
    lines = [
        Series(QUERY, bundle.id, "backlog_blocks") for fragment in world.estate.fragments.values()
        if fragment.active_tasks for bundle in fragment.queries]
    points = world.history.read(
        lines, TEN_SECONDS, begin_s=int(world.now_s - BEFORE_S), end_s=int(world.now_s))
    return frozenset(line.subject for line in lines if line in points and grows(points[line].values))


def _resting_queries(world: World) -> frozenset[str]:
    """Queries whose tasks moved lately: they have other ids since."""
    moved = resting_tasks(world.rounds(Deploying.name, since_s=world.now_s - DAY_S), now_s=world.now_s)
    places = world.estate.places
    return frozenset(places[task][0] for task in moved if task in places)
