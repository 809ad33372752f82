"""What chaining is told: limits that are not met, the queries on their ways, and the chains that it has made."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

import numpy as np
from django.db.models import Q, QuerySet

from dashboard import jobs
from dashboard.controllers.collecting import fusions
from dashboard.controllers.collecting.fusions import NO_LOAD, asked_by, measured_now
from dashboard.controllers.collecting.limited import LimitSeries, measured_by
from dashboard.controllers.collecting.lines import Kept, Lines, middle
from dashboard.controllers.models import RoundRow
from dashboard.controllers.stored import round_of
from dashboard.operations.costs import costs_here
from dashboard.operations.models import BatchFigures, FragmentRow, LatencyStatus
from dashboard.operations.slow_queries import cut_tasks
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from dashboard.plans.models import PlanRecord
from dashboard.plans.prices import prices_in_force
from dashboard.plans.selectors import plan_of
from scheduler.controllers.chaining import FUSES_BELOW, UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.defragmentation import Candidate
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.opening import LIMITED
from scheduler.controllers.protocol import Effect
from scheduler.controllers.values import KEPT, UNCHECKED, Change, Round
from scheduler.history.series import MINUTE, TEN_SECONDS
from scheduler.latency.chaining import ChainingFacts
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.status import LATE, TOLERATED
from scheduler.latency.triggers import SMALLEST_S, BatchCost
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.model.latency import LatencyLimit, from_json
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import names_where
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import Fusion, series_along

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
    full = _fused_and_full()
    if not late and not full and not _made_rounds().exists():
        return NOTHING
    view = view_for(EVERYTHING)
    if not view.reading.available:
        return None
    ways = _ways(view, (row for row in late if str(row.dataflow_id) in view.records), at)
    evidence = _chains(view, _with_steps(view, _worst(ways), at), at)
    return replace(evidence, fused=(*evidence.fused, *_fused_by_others(view, full, at)))


def frames(begin: datetime, end: datetime) -> Iterator[Frame]:
    """When limits were missed, by kept history: those of now, along their ways of now; those of then are not kept."""
    view = view_for(EVERYTHING)
    ways = _with_steps(view, _ways(view, LatencyStatus.objects.filter(dataflow__in=list(view.records)), end), end)
    limited = [(way, LimitSeries.of(way.measured_by, view.estate)) for way in ways]
    history = Kept([line for _, lines in limited for line in lines.all], MINUTE, begin, end)
    measured = [(way, lines.latency_ms(history)) for way, lines in limited]
    base = _chains(view, ways, end)
    at = begin
    while at <= end:
        index = history.index(at)
        late = [
            replace(way, latency_s=latency_ms / 1000, measured_ms=latency_ms) for way, line in measured
            if 0 <= index < len(line) and np.isfinite(latency_ms := float(line[index]))
            and latency_ms > TOLERATED * 1000 * way.limit_s]
        yield Frame(at.timestamp(), replace(base, late=tuple(_worst(late))))
        at += timedelta(seconds=max(Chaining.every_s, MINUTE.step_s))


def effect(turn: Round, row: RoundRow, at: datetime) -> Effect | None:
    """CPU and latency as of any fusion, and the latency of the limit that it was for."""
    measured = fusions.effect(turn, row, at)
    limited = LimitSeries.of(turn.decision.arguments, view_for(EVERYTHING).estate)
    if measured is None or not limited.ends:  # a cut is for no limit
        return measured
    history = Kept(limited.all, TEN_SECONDS, row.changed, at)
    latency_ms = dict(zip(history.times_s.tolist(), limited.latency_ms(history).tolist(), strict=True))
    return replace(measured, samples=tuple(
        replace(sample, values={**sample.values, LIMITED: latency_ms.get(sample.at_s, math.nan)})
        for sample in measured.samples))


def _worst(ways: Iterable[LateWay]) -> list[LateWay]:
    """Of each dataflow the limit that is missed by most."""
    return list({way.dataflow: way for way in sorted(ways, key=lambda way: way.badness)}.values())


def _ways(view: View, rows: Iterable[LatencyStatus], at: datetime) -> list[LateWay]:
    """The ways of limits, with what was measured of these lately; without a query of which only a stream is on the way:
    fused with the others it would bring its batch there."""
    limits = [
        (row, limit, measured_by(view.estate, str(row.dataflow_id), limit)) for row in rows
        if (limit := _limit_of(row)) and view.estate.submitted[str(row.dataflow_id)].running.keys() >= {*limit.path}]
    limited = [LimitSeries.of(noted, view.estate) for *_, noted in limits]
    history = Kept([line for lines in limited for line in lines.all], TEN_SECONDS, at - LATELY, at)
    return [
        LateWay(
            str(row.dataflow_id), view.estate.submitted[str(row.dataflow_id)].team, limit.words, limit.limit_s,
            _comes_to_s(row), tuple(
                query for query, _, batch_s in row.path if batch_s and query in view.estate.fragments),
            batch_s={part[0]: part[2] for part in row.path}, measured_by=noted,
            measured_ms=middle(lines.latency_ms(history)) if row.measured_s is None else 1000 * row.measured_s)
        for (row, limit, noted), lines in zip(limits, limited, strict=True)]


def _with_steps(view: View, ways: Sequence[LateWay], at: datetime) -> list[LateWay]:
    """Ways with every step that may fuse a series on them, and what is measured of it."""
    rules = {"task_types": jobs.task_types(), "query_cores": query_cores(prices_in_force()), "apart": cut_tasks()}
    possible = [
        [asked_by(view, fusion, way.dataflow) for fusion in series_along(view.estate, way.path, **rules)]
        for way in ways]
    steps = [step for of_way in possible for step in of_way]
    measured = iter(measured_now(view, steps, at) if steps else ())
    return [
        replace(way, steps=tuple(islice(measured, len(of_way)))) for way, of_way in zip(ways, possible, strict=True)]


def _limit_of(row: LatencyStatus) -> LatencyLimit:
    (limit,) = from_json(row.limit) or ()
    return limit


def _comes_to_s(row: LatencyStatus) -> float:
    return max(row.measured_s or 0.0, row.least_s or row.expected_s)


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
    for row in BatchFigures.objects.filter(pk__in=queries, fragment__real_time=False).select_related("fragment"):
        interval_s = row.trigger_ms / 1000
        lasts_s = BatchCost(**row.cost).duration_s(interval_s) if row.cost else 0.0
        once[row.pk] = batch_cpu_s / max(interval_s, lasts_s, SMALLEST_S)
    return once


def _made_rounds() -> QuerySet[RoundRow]:
    return RoundRow.objects.filter(controller=Chaining.name, phase__in=[KEPT, UNCHECKED])


def _fused_and_full() -> tuple[str, ...]:
    """Queries that were made of others, and may take a core by what they report now."""
    reports = jobs.read_live((), {}).reports
    full = [name for name, report in reports.queries() if report.cpu is not None and report.cpu >= FUSES_BELOW]
    return tuple(FragmentRow.objects.filter(pk__in=full, bundles=[], active__gt=1).exclude(inherits=[]).order_by(
        "pk").values_list("pk", flat=True)) if full else ()


def _fused_by_others(view: View, queries: Iterable[str], at: datetime) -> Iterator[FusedChain]:
    """Those of some queries that another controller or people have fused, with what they take."""
    estate = view.estate
    for name in queries:
        fragment, (record, plan) = estate.fragments.get(name), _fused_by(name)
        if record is None or fragment is None or str(record.dataflow_id) not in estate.submitted:
            continue
        target, tasks = str(record.dataflow_id), tuple(fragment.active_tasks)
        about = Candidate(target, "", (), Fusion((), "", 0), NO_LOAD, tasks)
        lines = Lines(estate, [about], begin=at - LATELY, end=at, grain=TEN_SECONDS)
        cores = middle(lines.cores(tasks))
        if cores is None:
            continue
        team = estate.submitted[target].team
        teams = {estate.submitted[user].team for task in tasks for user in estate.users.get(task, ())}
        yield FusedChain(
            str(record.pk), target, team, tuple(sorted(teams - {team})), _joined(estate, plan, name), cores,
            middle(lines.latency(target)))


def _fused_by(query: str) -> tuple[PlanRecord, Plan] | tuple[None, None]:
    """The plan that made a query of others, where that is in force and was not made by a round of chaining."""
    plans = PlanRecord.objects.filter(
        kind__in=names_where("fuses"), proposal__finished_at__isnull=False, proposal__rollback_plan=None,
        document__contains=f'"{query}"').select_related("proposal__round").order_by("-proposal__finished_at")
    for record in plans:
        plan = plan_of(record)
        if plan is not None and query in plan.fragments_after and query not in plan.fragments_before:
            by = record.proposal.round
            return (None, None) if by is not None and by.controller == Chaining.name else (record, plan)
    return None, None


def _joined(estate: Estate, plan: Plan, query: str) -> tuple[Change, ...]:
    """What a plan changed that fused a query: each stream within it that was in a channel before."""
    heads = [plan.fragments_before[name].tasks[0] for name in plan.fragments_after[query].inherits]
    own = set(estate.fragments[query].tasks)
    return tuple(
        Change("stream", f"{parent}>{head}", "in a channel", "within a query")
        for head in heads if head in own for parent in estate.tasks[head].parents if parent in own)


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
