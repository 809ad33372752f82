"""Evidence for chaining: limits that are not met, the queries on their ways, and the chains that it has made."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from scheduler.controllers.chaining import Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.changes import Aspect, AspectChange, Carriage
from scheduler.controllers.controller_port import Effect
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.fusion_candidates import Candidate
from scheduler.controllers.loop_values import KEPT, UNCHECKED, UNDO, Round
from scheduler.controllers.promised_measures import LIMITED
from scheduler.history.series import MINUTE, TEN_SECONDS
from scheduler.latency.limits_met import LATE, TOLERATED, LimitStatus
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.task_chaining import FUSES_BELOW, ChainingFacts
from scheduler.latency.triggers import SMALLEST_S
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.model.plan import Plan
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import series_along

from . import fusions
from .fusions import NO_FUSION, NO_LOAD, asked_by, measured_now
from .limited import LimitSeries, measured_by
from .lines import KeptSeries, Lines, middle
from .world import World

LATELY_S = 120.0  # over which a chain is held to what a core has: longer would be too late
# That a limit is not met before its queries are fused: two rounds in which other intervals or modes may meet it. One is
# enough where it is known that neither will.
LASTS_S = 20.0
NOTHING = Chains((), RuntimeGraph((), ()), ChainingFacts({}, {}))


def evidence(world: World) -> Chains | None:
    """The worst limit of each dataflow that has not been met for a while, or cannot be; None where nothing is known of
    what runs."""
    late = [
        status for status in world.limit_statuses(LATE) if status.hopeless or (
            status.late_since_s is not None and status.late_since_s <= world.now_s - LASTS_S)]
    full = _fused_and_full(world)
    if not late and not full and not _made_rounds(world):
        return NOTHING
    if not world.is_heard:
        return None
    ways = _ways(world, late)
    evidence = _chains(world, _with_steps(world, _worst(ways)))
    return replace(evidence, fused=(*evidence.fused, *_fused_by_others(world, full)))


def frames(world: World, begin_s: float, end_s: float) -> Iterator[Frame]:
    """Missed limits in kept history: those of now, along their ways of now; those of then are not kept."""
    ways = _with_steps(world, _ways(world, world.limit_statuses()))
    limited = [(way, LimitSeries.of(way.measured_by, world.estate)) for way in ways]
    history = KeptSeries(world.history, [line for _, lines in limited for line in lines.all], MINUTE, begin_s, end_s)
    measured = [(way, lines.latency_ms(history)) for way, lines in limited]
    base = _chains(world, ways)
    at_s = begin_s
    while at_s <= end_s:
        index = history.index(at_s)
        late = [
            replace(way, latency_s=latency_ms / 1000, measured_ms=latency_ms) for way, line in measured
            if 0 <= index < len(line) and np.isfinite(latency_ms := float(line[index]))
            and latency_ms > TOLERATED * 1000 * way.limit_s]
        yield Frame(at_s, replace(base, late=tuple(_worst(late))))
        at_s += max(Chaining.every_s, MINUTE.step_s)


def effect(loop_round: Round, world: World) -> Effect | None:
    """CPU and latency as of any fusion, and the latency of the limit that it was for."""
    measured = fusions.effect(loop_round, world)
    limited = LimitSeries.of(loop_round.decision.arguments, world.estate)
    if measured is None or loop_round.changed_s is None or not limited.ends:  # a cut is for no limit
        return measured
    history = KeptSeries(world.history, limited.all, TEN_SECONDS, loop_round.changed_s, world.now_s)
    latency_ms = dict(zip(history.times_s.tolist(), limited.latency_ms(history).tolist(), strict=True))
    return replace(measured, samples=tuple(
        replace(sample, values={**sample.values, LIMITED: latency_ms.get(sample.at_s, math.nan)})
        for sample in measured.samples))


def _worst(ways: Iterable[LateWay]) -> list[LateWay]:
    """The limit of each dataflow that is missed by most."""
    return list({way.dataflow: way for way in sorted(ways, key=lambda way: way.badness)}.values())


def _ways(world: World, statuses: Iterable[LimitStatus]) -> list[LateWay]:
    """The ways of limits, with what was measured of these lately; without a query of which only a stream is on the way:
    fused with the others it would bring its batch there."""
    estate = world.estate
    limits = [
        (status, measured_by(estate, status.dataflow, status.limit)) for status in statuses
        if status.dataflow in estate.submitted
        and estate.submitted[status.dataflow].running.keys() >= {*status.limit.path}]
    limited = [LimitSeries.of(noted, estate) for _, noted in limits]
    history = KeptSeries(
        world.history, [line for lines in limited for line in lines.all], TEN_SECONDS, world.now_s - LATELY_S,
        world.now_s)
    return [
        LateWay(
            status.dataflow, estate.submitted[status.dataflow].team, status.limit.words, status.limit.limit_s,
            _comes_to_s(status), tuple(
                query for query, _, batch_s in status.path if batch_s and query in estate.fragments),
            batch_s={query: batch_s for query, _, batch_s in status.path}, measured_by=noted,
            measured_ms=middle(lines.latency_ms(history)) if status.measured_s is None else 1000 * status.measured_s)
        for (status, noted), lines in zip(limits, limited, strict=True)]


def _with_steps(world: World, ways: Sequence[LateWay]) -> list[LateWay]:
    """Ways with every step that may fuse a series on them, and what is measured of it."""
    rules = {"task_types": world.task_types, "query_cores": query_cores(world.prices), "apart": world.apart}
    possible = [
        [asked_by(world.estate, fusion, way.dataflow) for fusion in series_along(world.estate, way.path, **rules)]
        for way in ways]
    steps = [step for of_way in possible for step in of_way]
    measured = iter(measured_now(world, steps) if steps else ())
    return [
        replace(way, steps=tuple(islice(measured, len(of_way)))) for way, of_way in zip(ways, possible, strict=True)]


def _comes_to_s(status: LimitStatus) -> float:
    return max(status.measured_s or 0.0, status.least_s or status.expected_s)


def _chains(world: World, late: Collection[LateWay]) -> Chains:
    estate, types, apart = world.estate, world.task_types, world.apart
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
        reports = [world.reports.query(bundle.slot, bundle.id) for bundle in fragment.queries]
        cpus = [report.cpu for report in reports if report is not None and report.cpu is not None]
        if len(cpus) < len(reports):
            stays_apart.add(name)  # of one whose CPU is not known nobody can tell whether there is room
        cores[name] = sum(cpus)
    nodes = {name: node_of(fragment.slot) for name, fragment in working.items()}
    once = _once(world, {query for way in late for query in way.path})
    facts = ChainingFacts(nodes, cores, apart=stays_apart, once=once)
    order = sorted(channels, key=lambda channel: (channel.source, channel.target))
    return Chains(tuple(late), RuntimeGraph(vertices, order), facts, _fused(world))


def _once(world: World, queries: Collection[str]) -> dict[str, float]:
    """Cores that each of some queries takes for its batches whatever is in them: of those that stay open next to none.
    """
    batch_cpu_s, once = world.costs.query_batch_s, {}
    for name, batches in world.batches(queries).items():
        if not batches.real_time:
            lasts_s = 0.0 if batches.cost is None else batches.cost.duration_s(batches.interval_s)
            once[name] = batch_cpu_s / max(batches.interval_s, lasts_s, SMALLEST_S)
    return once


def _made_rounds(world: World) -> list[Round]:
    """The chains that were made and stayed, the newest first."""
    return list(reversed(world.rounds(Chaining.name, phases={KEPT, UNCHECKED})))


def _fused_and_full(world: World) -> tuple[str, ...]:
    """Queries that were made of others, and may take a core by what they report now."""
    full = [name for name, report in world.reports.queries() if report.cpu is not None and report.cpu >= FUSES_BELOW]
    return tuple(
        name for name in sorted(full) if (fragment := world.estate.fragments.get(name)) is not None
        and not fragment.divided and fragment.active > 1 and fragment.inherits)


def _fused_by_others(world: World, queries: Iterable[str]) -> Iterator[FusedChain]:
    """The fused ones of some queries that another controller or people have fused, with their cost."""
    estate = world.estate
    for name in queries:
        fragment, fused = estate.fragments.get(name), world.fused_by_others(Chaining.name, name)
        if fused is None or fragment is None or fused.dataflow not in estate.submitted:
            continue
        target, tasks = fused.dataflow, tuple(fragment.active_tasks)
        lines = _lately(world, target, tasks)
        cores = middle(lines.cores(tasks))
        if cores is None:
            continue
        team = estate.submitted[target].team
        teams = {estate.submitted[user].team for task in tasks for user in estate.users.get(task, ())}
        yield FusedChain(
            fused.id, target, team, tuple(sorted(teams - {team})), _joined(estate, fused.plan, name), cores,
            middle(lines.latency(target)))


def _lately(world: World, dataflow: str, tasks: tuple[str, ...]) -> Lines:
    about = Candidate(dataflow, "", (), NO_FUSION, NO_LOAD, tasks)
    return Lines(
        world.history, world.estate, [about], begin_s=world.now_s - LATELY_S, end_s=world.now_s, grain=TEN_SECONDS)


def _joined(estate: Estate, plan: Plan, query: str) -> tuple[AspectChange, ...]:
    """The streams that a plan fused a query from: each stream within it that was in a channel before."""
    heads = [plan.fragments_before[name].tasks[0] for name in plan.fragments_after[query].inherits]
    tasks = set(estate.fragments[query].tasks)
    return tuple(
        AspectChange(Aspect.STREAM, f"{parent}>{head}", Carriage.CHANNEL, Carriage.WITHIN)
        for head in heads if head in tasks for parent in estate.tasks[head].parents if parent in tasks)


def _fused(world: World) -> tuple[FusedChain, ...]:
    """The chains of rounds in force whose tasks are one query still, with what they take.

    Of a query that was made in several rounds only the newest can be taken back.
    """
    estate = world.estate
    chains: list[FusedChain] = []
    covered_queries: set[str] = set()
    for loop_round in _made_rounds(world):
        decision = loop_round.decision
        tasks = tuple(decision.arguments.get("tasks", "").split())
        if UNDO in decision.arguments or decision.target not in estate.submitted:
            continue
        queries = {estate.places.get(task, ("", 0))[0] for task in tasks}
        if len(queries) != 1 or "" in queries or queries <= covered_queries:
            continue  # it was cut, parts of it have gone, or a later round has made it longer
        covered_queries |= queries
        lines = _lately(world, decision.target, tasks)
        cores = middle(lines.cores(tasks))
        unwanted = not estate.unchained.isdisjoint(tasks)
        if cores is not None or unwanted:
            chains.append(FusedChain(
                loop_round.key, decision.target, decision.team, decision.touched, decision.changes, cores or 0.0,
                middle(lines.latency(decision.target)), unwanted))
    return tuple(chains)
