"""What chaining is told: limits that are not met, the queries on their ways, and the chains that it has made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from dashboard import jobs
from dashboard.controllers.collecting.fusions import NO_LOAD, asked_by, measured_now
from dashboard.controllers.collecting.lines import Lines, middle
from dashboard.controllers.models import RoundRow
from dashboard.controllers.stored import round_of
from dashboard.history.store import DatabaseHistory
from dashboard.operations.costs import costs_here
from dashboard.operations.models import FragmentPace, LatencyStatus
from dashboard.operations.slow_queries import cut_tasks
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from dashboard.plans.prices import prices_in_force
from scheduler.controllers.chaining import UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.defragmentation import Candidate
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.values import KEPT, UNCHECKED
from scheduler.history.series import DATAFLOW, MINUTE, TEN_SECONDS, Series
from scheduler.latency.chaining import ChainingFacts
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.status import LATE, TOLERATED
from scheduler.latency.triggers import SMALLEST_S, BatchCost
from scheduler.model.fragment import node_of
from scheduler.model.latency import LatencyLimit, from_json
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import Fusion, series_along

MEAN, LIMIT = "latency_mean_ms", "latency_limit_ms"
LATELY = timedelta(minutes=2)  # over which a chain is held to what a core has: longer would be too late
# That a limit is not met before its queries are fused: two rounds in which other intervals or modes may meet it. One is
# enough where it is known that neither will.
LASTS = timedelta(seconds=20)
NOTHING = Chains((), RuntimeGraph((), ()), ChainingFacts({}, {}))


def evidence(at: datetime) -> Chains | None:
    """Of each dataflow the worst limit that has not been met for a while, or cannot be; None where nothing is known of
    what runs."""
    late = list(LatencyStatus.objects.filter(
        Q(late_since__lte=at - LASTS) | Q(hopeless=True), state__in=LATE))
    if not late and not _made_rounds().exists():
        return NOTHING
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    worst: dict[str, LatencyStatus] = {}
    for row in sorted(late, key=_how_late):
        if str(row.dataflow_id) in view.records:
            worst[str(row.dataflow_id)] = row
    return _chains(view, _ways(view, worst.values(), at).values(), at)


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """When limits were missed, by kept history, along the ways of now; those of then are not kept.

    History has the first limit of each dataflow, and its mean: so only first limits on that.
    """
    view = view_for(EVERYTHING)
    rows = [row for row in LatencyStatus.objects.filter(number=0, dataflow__in=list(view.records))
            if _is_of_the_mean(_limit_of(row))]
    ways = _ways(view, rows, end)
    series = [Series(DATAFLOW, key, metric) for key in ways for metric in (MEAN, LIMIT)]
    points = DatabaseHistory().read(
        series, MINUTE, begin_s=int(begin.timestamp()), end_s=int(end.timestamp())) if series else {}
    base = _chains(view, ways.values(), end)
    at = begin
    while at <= end:
        late = []
        for key, way in ways.items():
            lines = [points.get(Series(DATAFLOW, key, metric)) for metric in (MEAN, LIMIT)]
            mean_ms, limit_ms = (None if line is None else line.at(at.timestamp()) for line in lines)
            if mean_ms is not None and limit_ms is not None and mean_ms > TOLERATED * limit_ms:
                late.append(replace(way, latency_s=mean_ms / 1000, limit_s=limit_ms / 1000))
        yield Frame(at.timestamp(), replace(base, late=tuple(late)))
        at += timedelta(seconds=max(Chaining.every_s, MINUTE.step_s))


def _ways(view: View, rows: Iterable[LatencyStatus], at: datetime) -> dict[str, LateWay]:
    """The ways of limits, by dataflow, with every step that may fuse a series on them and what is measured of it.

    There is at most one row of each dataflow.
    """
    rules = {"task_types": jobs.task_types(), "query_cores": query_cores(prices_in_force()), "apart": cut_tasks()}
    ways, possible = {}, []
    for row in rows:
        key, limit = str(row.dataflow_id), _limit_of(row)
        path = tuple(part[0] for part in row.path if part[0] in view.estate.fragments)
        possible += [asked_by(view, fusion, key) for fusion in series_along(view.estate, path, **rules)]
        ways[key] = LateWay(
            key, view.estate.submitted[key].team, limit.words, limit.limit_s,
            _comes_to_s(row), path, batch_s={part[0]: part[2] for part in row.path},
            is_of_the_mean=_is_of_the_mean(limit))
    for step in measured_now(view, possible, at) if possible else ():
        ways[step.dataflow] = replace(ways[step.dataflow], steps=(*ways[step.dataflow].steps, step))
    return ways


def _limit_of(row: LatencyStatus) -> LatencyLimit:
    (limit,) = from_json(row.limit) or ()
    return limit


def _is_of_the_mean(limit: LatencyLimit) -> bool:
    """Whether a limit is on what is measured of its dataflow as a whole, which is all that a chain is held to."""
    return not limit.along and limit.percentile is None


def _comes_to_s(row: LatencyStatus) -> float:
    return max(row.measured_s or 0.0, row.least_s or row.expected_s)


def _how_late(row: LatencyStatus) -> tuple[bool, float]:
    """The worst has the highest: those that one query less may help, then by how many times the limit they come to."""
    return len(row.path) > 1, _comes_to_s(row) / _limit_of(row).limit_s


def _chains(view: View, late: Collection[LateWay], at: datetime) -> Chains:
    estate, types, apart = view.estate, jobs.task_types(), cut_tasks()
    working = {name: fragment for name, fragment in estate.fragments.items() if fragment.active_tasks}
    stays_apart = {
        name for name, fragment in working.items()
        if fragment.divided or fragment.tasks[0] in apart or not estate.unchained.isdisjoint(fragment.tasks) or any(
            types[estate.tasks[task].type].chain != "always"
            for task in fragment.active_tasks if estate.tasks[task].type in types)}
    vertices = [Vertex(name, name, node_of(fragment.slot)) for name, fragment in working.items()]
    channels = {Channel(estate.places[parent][0], name) for name, fragment in working.items()
                for parent in estate.tasks[fragment.tasks[0]].parents if estate.places[parent][0] in working}
    cores = {}
    for name, fragment in working.items():
        reports = [view.reading.reports.query(bundle.slot, bundle.id) for bundle in fragment.queries]
        known = [report.cpu for report in reports if report is not None and report.cpu is not None]
        if len(known) < len(reports):
            stays_apart.add(name)  # of one whose CPU is not known nobody can tell whether there is room
        cores[name] = sum(known)
    nodes = {name: node_of(fragment.slot) for name, fragment in working.items()}
    facts = ChainingFacts(nodes, cores, apart=stays_apart, once=_once({query for way in late for query in way.path}))
    order = sorted(channels, key=lambda channel: (channel.source, channel.target))
    return Chains(tuple(late), RuntimeGraph(vertices, order), facts, _fused(view, at))


def _once(queries: Collection[str]) -> dict[str, float]:
    """Cores that each of some queries takes for its batches whatever is in them: of those that stay open next to none.
    """
    batch_cpu_s = costs_here().query_batch_s
    once = {}
    for row in FragmentPace.objects.filter(pk__in=queries, real_time=False):
        interval_s = row.trigger_ms / 1000
        lasts_s = BatchCost(**row.cost).duration_s(interval_s) if row.cost else 0.0
        once[row.fragment] = batch_cpu_s / max(interval_s, lasts_s, SMALLEST_S)
    return once


def _made_rounds() -> QuerySet[RoundRow]:
    return RoundRow.objects.filter(controller=Chaining.name, phase__in=[KEPT, UNCHECKED])


def _fused(view: View, at: datetime) -> tuple[FusedChain, ...]:
    """The chains of rounds in force whose tasks are one query still, with what they take.

    Of a query that was made in several rounds only the newest can be taken back.
    """
    chains: list[FusedChain] = []
    seen: set[str] = set()
    for row in _made_rounds().order_by("-begun", "-pk"):
        decision = round_of(row).decision
        tasks = tuple(decision.arguments.get("tasks", "").split())
        if UNDO in decision.arguments or decision.target not in view.estate.submitted:
            continue
        queries = {view.estate.places.get(task, ("", 0))[0] for task in tasks}
        if len(queries) != 1 or "" in queries or queries <= seen:
            continue  # it was cut, parts of it have gone, or a later round has made it longer
        seen |= queries
        about = Candidate(decision.target, "", (), Fusion((), "", 0), NO_LOAD, tasks)
        lines = Lines(view.estate, [about], begin=at - LATELY, end=at, grain=TEN_SECONDS)
        cores = middle(lines.cores(tasks))
        unwanted = not view.estate.unchained.isdisjoint(tasks)
        if cores is not None or unwanted:
            chains.append(FusedChain(
                row.key, decision.target, decision.team, decision.touched, decision.changes, cores or 0.0,
                middle(lines.latency(decision.target)), unwanted))
    return tuple(chains)
