"""The cost of batches of running tasks, and the needs of their users: from what was read, and from paces in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dashboard.operations.latency_control.pacer import batch_figures_of, priced_ms_of
from scheduler.latency.real_time import groups_in
from scheduler.model.fragment import Fragment
from scheduler.performance.attribution import QueryWork, batch_shares
from scheduler.reuse.cost_shares import BatchPart, Need


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval of a query's batches, in ms: as far as their CPU goes, for each user alone where these need it
    differently often, and without a limit of any of them; and how far apart groups of an open batch begin."""

    priced_ms: int
    alone_ms: Mapping[str, int] = field(default_factory=dict)
    unlimited_ms: int | None = None
    groups_ms: int | None = None


def paces_of(fragments: Mapping[str, Fragment]) -> dict[str, Pace]:
    """The paces of queries, by query, as the recorder wrote them; it writes one within ten seconds."""
    rows = batch_figures_of(fragment.id for fragment in fragments.values())
    priced_ms = priced_ms_of(rows)
    paces = {
        name: Pace(priced_ms[name], row.alone_ms, row.unlimited_ms, row.trigger_ms if row.real_time else None)
        for name, row in rows.items()}
    return {query: paces[fragment.id] for query, fragment in fragments.items() if fragment.id in paces}


def batch_parts(
    work: Mapping[str, QueryWork], needs: Mapping[str, Sequence[Need]], paces: Mapping[str, Pace], *, cpu_us: int,
    over_s: float, group_cpu_s: float,
) -> dict[str, BatchPart]:
    """The part of batches in the CPU of a slot's running tasks, and the needs of their users.

    Parameters
    ----------
    needs : mapping of str to sequence of Need
        The times in which users needed running tasks.
    paces : mapping of str to Pace
        The intervals of queries' batches; for a query that is left out, its users' needs are unknown.
    group_cpu_s : float
        The CPU seconds of a group of events in an open batch.
    """
    shares = batch_shares(cpu_us=cpu_us, queries=[
        _with_groups(done, over_s, paces.get(query), group_cpu_s) for query, done in work.items()])
    parts = {}
    for query, done in work.items():
        pace = paces.get(query)
        for task in done.tasks:
            interval_ms: Mapping[str, int] = {}
            if pace is not None:  # those who need it as often as all do so
                interval_ms = pace.alone_ms or dict.fromkeys(
                    (need.dataflow for need in needs.get(task.id, ())), pace.priced_ms)
            parts[task.id] = BatchPart(
                shares.get(task.id, 0.0), interval_ms, None if pace is None else pace.unlimited_ms)
    return parts


def _with_groups(work: QueryWork, over_s: float, pace: Pace | None, group_cpu_s: float) -> QueryWork:
    """The work of a query with what groups of events took, where its batches stay open."""
    if not work.tasks or pace is None or pace.groups_ms is None:
        return work
    return replace(
        work, groups_cpu_s=group_cpu_s * groups_in(work.tasks[0].events, over_s, pace.groups_ms / 1000))
