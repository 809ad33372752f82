"""What deployment is told: what runs where and exchanges what, who may ask for moves, and what moved lately."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from django.conf import settings

from dashboard import jobs
from dashboard.catalog import lifecycle as dataflows
from dashboard.controllers.collecting import fusions
from dashboard.controllers.collecting.lines import Lines, middle
from dashboard.controllers.models import RoundRow
from dashboard.controllers.stored import round_of
from dashboard.history.store import DatabaseHistory
from dashboard.operations.deployment import bytes_between_nodes, deployment_of, thresholds
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from scheduler.controllers.defragmentation import Candidate
from scheduler.controllers.deploying import SLOT, TRAFFIC, Asker, Deploying, Deployments, resting_tasks
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.protocol import Effect, Sample
from scheduler.controllers.values import DAY_S, Round
from scheduler.deployment.queues import grows
from scheduler.history.points import grid
from scheduler.history.series import MINUTE, QUERY, TEN_SECONDS, Series
from scheduler.reuse.defragment import Fusion

MOST_OF_A_TEAM = 10  # dataflows of a query that may ask for its move
LEAST_RATE = 1e-6  # events/s by which a rate is divided at the least


def evidence(at: datetime) -> Deployments | None:
    """What runs where now, by the medians of the last minutes; None where nothing is known of what runs."""
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    askers = _askers(view)
    lines = Lines(view.estate, _candidates(askers), begin=at - fusions.BEFORE, end=at, grain=TEN_SECONDS)
    measured = {
        query: tuple(replace(
            asker, latency_ms=middle(lines.latency(asker.dataflow)), load_per_s=middle(lines.rates(asker.load_tasks)))
            for asker in of_query)
        for query, of_query in askers.items()}
    cores = {query: middle(lines.cores(of_query[0].tasks)) for query, of_query in askers.items()}
    known = {query: value for query, value in cores.items() if value is not None}
    behind = _behind(view, begin=at - fusions.BEFORE, end=at)
    return _deployments(view, measured, known, _resting(view, at), behind)


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """What the queries of now took over kept history, where they are now; where others were is not kept."""
    view = view_for(EVERYTHING)
    askers = _askers(view)
    lines = Lines(view.estate, _candidates(askers), begin=begin, end=end, grain=MINUTE)
    by_query = {query: lines.cores(of_query[0].tasks) for query, of_query in askers.items()}
    base = _deployments(view, askers, {}, frozenset(), frozenset())
    at = begin
    while at <= end:
        newest = {
            query: lines.newest(line, at.timestamp(), within_s=fusions.BEFORE.total_seconds())
            for query, line in by_query.items()}
        bundles = {
            name: replace(bundle, cores=newest[name] or 0.0) if name in newest else bundle
            for name, bundle in base.deployment.bundles.items()}
        yield Frame(at.timestamp(), replace(base, deployment=replace(base.deployment, bundles=bundles)))
        at += timedelta(seconds=Deploying.every_s)


def effect(turn: Round, row: RoundRow, at: datetime) -> Effect | None:
    """The dataflow's latency, and the CPU of the slot that was left or the traffic with other nodes, since the move had
    settled."""
    measured = fusions.effect(turn, row, at)
    if measured is None or not measured.samples:
        return measured
    begin = datetime.fromtimestamp(measured.begin_s, UTC)
    promised = {bound.measure for bound in turn.decision.promise.bounds}
    figures = {
        measure: read(turn, begin, at) for measure, read in ((SLOT, _left_slot), (TRAFFIC, _traffic))
        if measure in promised}
    return replace(measured, samples=tuple(
        Sample(sample.at_s, {**sample.values, **{
            measure: by_s.get(int(sample.at_s), math.nan) for measure, by_s in figures.items()}}, sample.load)
        for sample in measured.samples))


def _left_slot(turn: Round, begin: datetime, end: datetime) -> dict[int, float]:
    """What the queries on the slot that was left take, in cores, by second: what its driver takes is in no promise."""
    slot = turn.decision.arguments.get("source", "")
    queries = [
        Series(QUERY, bundle.id, "cpu") for fragment in view_for(EVERYTHING).estate.fragments.values()
        if fragment.active_tasks for bundle in fragment.queries if bundle.slot == slot]
    begin_s, end_s = int(begin.timestamp()), int(end.timestamp())
    points = DatabaseHistory().read(queries, TEN_SECONDS, begin_s=begin_s, end_s=end_s)
    first_s, count = grid(begin_s, end_s, TEN_SECONDS.step_s)
    cores = np.zeros(count)
    for query in queries:
        cores += points[query].values if query in points else math.nan
    return {first_s + number * TEN_SECONDS.step_s: float(value) for number, value in enumerate(cores)}


def _traffic(turn: Round, begin: datetime, end: datetime) -> dict[int, float]:
    """Bytes a second between the queries that moved and those on other nodes, by second: what was sent, as it would be
    at the load of the promise."""
    view, arguments = view_for(EVERYTHING), turn.decision.arguments
    try:
        sent = bytes_between_nodes(view, arguments.get("tasks", "").split())
    except jobs.BrokerAway:
        return {}
    load_tasks = arguments.get("load_tasks", "").split()
    about = Candidate(turn.decision.target, "", (), Fusion((), "", 0), fusions.NO_LOAD, (), (*sent, *load_tasks))
    lines = Lines(view.estate, [about], begin=begin, end=end, grain=TEN_SECONDS)
    rates = sum((size * lines.rates([task]) for task, size in sent.items()), np.zeros(len(lines.times_s)))
    load = turn.decision.promise.load
    if load is not None:
        rates = rates * load / np.maximum(lines.rates(load_tasks), LEAST_RATE)
    return {int(at_s): float(rate) for at_s, rate in zip(lines.times_s, rates, strict=True)}


def _askers(view: View) -> dict[str, tuple[Asker, ...]]:
    """Of each query that no schedule divides the running dataflows that may ask for its move, some of each team: of
    several queries that go together one is needed that runs in all."""
    estate = view.estate
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
            record, team = view.records.get(user), estate.submitted[user].team
            if record is not None and record.status == dataflows.RUNNING and by_team[team] < MOST_OF_A_TEAM:
                by_team[team] += 1
                head = estate.tasks[tasks[0]]
                askers.append(Asker(
                    user, team, tuple(sorted(teams - {team})), tuple(tasks), head.parents or (head.id,)))
        if askers:
            askers_of[name] = tuple(askers)
    return askers_of


def _candidates(askers: Mapping[str, tuple[Asker, ...]]) -> list[Candidate]:
    """What is measured of each query and dataflow, as kept series have it."""
    return [
        Candidate(asker.dataflow, asker.team, asker.touched, Fusion((), "", 0), fusions.NO_LOAD, asker.tasks,
                  asker.load_tasks)
        for of_query in askers.values() for asker in of_query]


def _deployments(
    view: View, askers: Mapping[str, tuple[Asker, ...]], cores: Mapping[str, float], resting: frozenset[str],
    behind: frozenset[str],
) -> Deployments:
    return Deployments(
        deployment_of(view, cores, behind), askers, resting, thresholds=thresholds(),
        slot_price=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY)


def _behind(view: View, *, begin: datetime, end: datetime) -> frozenset[str]:
    """Queries for which ever more events wait, by what the broker held for them in the last minutes."""
    lines = [
        Series(QUERY, bundle.id, "backlog_blocks") for fragment in view.estate.fragments.values()
        if fragment.active_tasks for bundle in fragment.queries]
    points = DatabaseHistory().read(
        lines, TEN_SECONDS, begin_s=int(begin.timestamp()), end_s=int(end.timestamp()))
    return frozenset(line.subject for line in lines if line in points and grows(points[line].values))


def _resting(view: View, at: datetime) -> frozenset[str]:
    """Queries whose tasks moved lately: they have other ids since."""
    rows = RoundRow.objects.filter(controller=Deploying.name, begun__gte=at - timedelta(seconds=DAY_S))
    moved = resting_tasks([round_of(row) for row in rows], now_s=at.timestamp())
    places = view.estate.places
    return frozenset(places[task][0] for task in moved if task in places)
