"""What chaining is told: limits that are not met, the queries on their ways, and the chains that it has made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard import jobs
from dashboard.controllers.collecting.fusions import steps_now
from dashboard.controllers.collecting.lines import Lines, middle
from dashboard.controllers.models import RoundRow
from dashboard.controllers.stored import round_of
from dashboard.history.store import DatabaseHistory
from dashboard.operations.models import LatencyStatus
from dashboard.operations.slow_queries import cut_tasks
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from scheduler.controllers.chaining import UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.defragmentation import Candidate
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.values import KEPT, UNCHECKED
from scheduler.history.series import DATAFLOW, MINUTE, TEN_SECONDS, Series
from scheduler.latency.chaining import ChainingFacts
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.status import IMPOSSIBLE, MISSED, TOLERATED
from scheduler.model.fragment import node_of
from scheduler.model.latency import from_json
from scheduler.reuse.defragment import Fusion, Load

MEAN, LIMIT = "latency_mean_ms", "latency_limit_ms"
LATELY = timedelta(minutes=2)  # over which a chain is held to what a core has: longer would be too late


def evidence(at: datetime) -> Chains | None:
    """Every limit that is not met now; None where nothing is known of what runs."""
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    steps = steps_now(view, at)
    rows = LatencyStatus.objects.filter(state__in=[MISSED, IMPOSSIBLE], number=0, dataflow__in=list(view.records))
    return _chains(view, [_way(view, row, steps) for row in rows], at)


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """When limits were missed, by kept history, along the ways of now; those of then are not kept."""
    view = view_for(EVERYTHING)
    steps = steps_now(view, end)
    rows = {str(row.dataflow_id): row for row in LatencyStatus.objects.filter(
        number=0, dataflow__in=list(view.records))}
    series = [Series(DATAFLOW, key, metric) for key in rows for metric in (MEAN, LIMIT)]
    points = DatabaseHistory().read(
        series, MINUTE, begin_s=int(begin.timestamp()), end_s=int(end.timestamp())) if series else {}
    base = _chains(view, [], end)
    at = begin
    while at <= end:
        late = []
        for key, row in rows.items():
            lines = [points.get(Series(DATAFLOW, key, metric)) for metric in (MEAN, LIMIT)]
            mean_ms, limit_ms = (None if line is None else line.at(at.timestamp()) for line in lines)
            if mean_ms is not None and limit_ms is not None and mean_ms > TOLERATED * limit_ms:
                late.append(replace(_way(view, row, steps), latency_s=mean_ms / 1000, limit_s=limit_ms / 1000))
        yield Frame(at.timestamp(), replace(base, late=tuple(late)))
        at += timedelta(seconds=max(Chaining.every_s, MINUTE.step_s))


def _way(view: View, row: LatencyStatus, steps: Sequence[Candidate]) -> LateWay:
    key, (limit,) = str(row.dataflow_id), from_json(row.limit) or ()
    path = tuple(part[0] for part in row.path if part[0] in view.estate.fragments)
    pairs = set(itertools.pairwise(path))
    team = view.estate.submitted[key].team
    return LateWay(
        key, team, limit.words, limit.limit_s, max(row.measured_s or 0.0, row.least_s or row.expected_s), path,
        steps=tuple(replace(step, dataflow=key, team=team) for step in steps if step.fusion.path in pairs and (
            step.team == team or team in step.touched)),
        batch_s={part[0]: part[2] for part in row.path})


def _chains(view: View, late: Sequence[LateWay], at: datetime) -> Chains:
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
    facts = ChainingFacts(nodes, cores, apart=stays_apart)
    order = sorted(channels, key=lambda channel: (channel.source, channel.target))
    return Chains(tuple(late), RuntimeGraph(vertices, order), facts, _fused(view, at))


def _fused(view: View, at: datetime) -> tuple[FusedChain, ...]:
    """The chains of rounds in force whose tasks are one query still, with what they take.

    Of a query that was made in several rounds only the newest can be taken back.
    """
    chains: list[FusedChain] = []
    seen: set[str] = set()
    rows = RoundRow.objects.filter(controller=Chaining.name, phase__in=[KEPT, UNCHECKED]).order_by("-begun", "-pk")
    for row in rows:
        decision = round_of(row).decision
        tasks = tuple(decision.arguments.get("tasks", "").split())
        if UNDO in decision.arguments or decision.target not in view.estate.submitted:
            continue
        queries = {view.estate.places.get(task, ("", 0))[0] for task in tasks}
        if len(queries) != 1 or "" in queries or queries <= seen:
            continue  # it was cut, parts of it have gone, or a later round has made it longer
        seen |= queries
        about = Candidate(decision.target, "", (), Fusion((), "", 0, None), Load(0.0, 0.0, None, None), tasks)
        lines = Lines(view.estate, [about], begin=at - LATELY, end=at, grain=TEN_SECONDS)
        cores = middle(lines.cores(tasks))
        unwanted = not view.estate.unchained.isdisjoint(tasks)
        if cores is not None or unwanted:
            chains.append(FusedChain(
                row.key, decision.target, decision.team, decision.touched, decision.changes, cores or 0.0,
                middle(lines.latency(decision.target)), unwanted))
    return tuple(chains)
