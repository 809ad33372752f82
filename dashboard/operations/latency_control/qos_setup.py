"""Latency watched by nodes (paper [5]): what the site sets up for their managers, where intervals follow by steps.

Nothing else is decided here: managers choose intervals by what they measure, and the site notes which are in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import product

from dashboard import jobs
from dashboard.operations.live_view.estate_view import View
from scheduler.contracts.qos import QosSetup
from scheduler.latency.constrained_paths import constraints_on, strictest
from scheduler.latency.pacing import LimitOnWay, Pacing, Queries, expected_in_steps
from scheduler.latency.pacing_problem import Wants
from scheduler.latency.real_time import BatchModes
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningBundle, node_of
from scheduler.model.standing_answers import StandingAnswers


class NodesSetUp:
    """The last set-ups, so that they are worked out anew only for another estate or other limits."""

    def __init__(self) -> None:
        self._inputs: tuple[Estate, Wants] | None = None
        self._setups: Mapping[str, QosSetup] = {}

    def publish(self, view: View, wants: Wants, queries: Queries, *, at: datetime) -> None:
        """Let each node that has queries have its part; what stands there already is left alone."""
        if self._inputs is None or self._inputs[0] is not view.estate or self._inputs[1] is not wants:
            self._setups, self._inputs = setups_of(view.estate, wants, queries), (view.estate, wants)
        idle = [QosSetup(node=name) for name in nodes_set_up(view) if name not in self._setups]
        jobs.publish_qos([*self._setups.values(), *idle], at_ms=_ms(at))


def end_all(view: View, *, at: datetime) -> None:
    """Let nodes that watch limits by themselves do so no more: the site chooses intervals."""
    if names := nodes_set_up(view):
        jobs.publish_qos([QosSetup(node=name) for name in names], at_ms=_ms(at))


def as_it_is(
    queries: Queries, limits: Iterable[LimitOnWay], in_force: Mapping[str, float], *, standing: StandingAnswers[Pacing]
) -> BatchModes:
    """The intervals that managers chose, as far as nodes report them, and the latencies of limits with them."""
    interval_s = {query: in_force.get(query, before_s) for query, before_s in queries.before_s.items()}
    cores = sum(cost.cores(interval_s[query]) for query, cost in queries.costs.items())
    return BatchModes(
        frozenset(), Pacing(interval_s, cores, expected_in_steps(queries, limits, interval_s, standing=standing)),
        interval_s)


def nodes_set_up(view: View) -> list[str]:
    """The nodes that say that they have a part in watching limits."""
    return [name for name, report in view.reading.reports.items() if report.qos]


def setups_of(estate: Estate, wants: Wants, queries: Queries) -> dict[str, QosSetup]:
    """The set-up of each node."""
    return qos_setups(
        runtime_graph(estate, queries), strictest(
            constraint for limit, want in wants.values() for constraint in constraints_on(
                want.way, limit_s=limit.limit_s, over_s=limit.over_s, percentile=limit.percentile)),
        longest_ms={
            name: round(1000 * min(queries.largest_s, queries.bounds_s.get(name, queries.largest_s)))
            for name in queries.costs},
        sources={name for name in queries.costs if not _parents(estate, name)},
        reads={
            bundle.id: {
                channel: writer.id for parent in _parents(estate, name)
                for channel, writer in estate.read_by(estate.fragments[name], bundle, parent).items()}
            for name in queries.costs for bundle in estate.fragments[name].queries})


def runtime_graph(estate: Estate, queries: Queries) -> RuntimeGraph:
    """The queries that work, and the channels between them: of fragments that are divided, from each to each."""
    bundles = {name: _working(estate.fragments[name].queries) for name in queries.costs}
    return RuntimeGraph(
        [Vertex(bundle.id, name, node_of(bundle.slot)) for name, of in bundles.items() for bundle in of],
        [Channel(writer.id, reader.id) for name, writers in queries.reads.items() for before in writers
         for writer, reader in product(bundles[before], bundles[name])])


def _parents(estate: Estate, name: str) -> tuple[str, ...]:
    return estate.tasks[estate.fragments[name].tasks[0]].parents


def _working(bundles: tuple[RunningBundle, ...]) -> list[RunningBundle]:
    return [bundle for bundle in bundles if not bundle.leaving] or list(bundles)


def _ms(at: datetime) -> int:
    return round(1000 * at.timestamp())
