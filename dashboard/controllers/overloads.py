"""Dataflows with goals that run by a schedule and are overloaded: adaptation looks at once, and at the newest rates.

The job that guards teams against each other looks for them every few seconds. Its knowledge of them is in the process:
another one that takes over begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dashboard import jobs
from scheduler.contracts.reports import QueryReport
from scheduler.controllers.evidence.world import World
from scheduler.elasticity.overloaded_queries import OverloadWatch, is_overloaded, is_settled
from scheduler.model.fragment import RunningBundle, node_of


class OverloadedDataflows:
    """One process's watch."""

    def __init__(self) -> None:
        self._watch = OverloadWatch()

    def look(self, world: World) -> bool:
        """Note which are overloaded; True if one is newly so, and needs a decision at once.

        A dataflow counts once until a look finds that it is no longer overloaded.
        """
        before, now_s = self._watch, world.now_s
        self._watch = before.look(set(_overloaded(world)), now_s=now_s)
        return not self._watch.lasting(now_s) <= before.lasting(now_s)

    def lasting(self, now_s: float) -> Collection[str]:
        """Those that were for some seconds, by id."""
        return self._watch.lasting(now_s)


OVERLOADED = OverloadedDataflows()


def _overloaded(world: World) -> Iterator[str]:
    """Those of which all queries have run for a while, and one is overloaded.

    Without a dataflow with goals this asks the database once, and the broker nothing.
    """
    if not world.goals:
        return
    estate = world.estate
    scheduled = [name for name in world.goals if name in estate.submitted and estate.submitted[name].scheduled]
    homes = {name: {estate.places[task][0] for task in estate.submitted[name].running.values()
                    if task in estate.places} for name in scheduled}
    fragments = {home: estate.fragments[home] for of_dataflow in homes.values() for home in of_dataflow}
    if not fragments:
        return
    try:
        waiting = jobs.waiting_events(estate, fragments.values())
    except jobs.BrokerAway:
        return
    for name in scheduled:
        queries = [(bundle.id, _report_of(world, bundle)) for home in homes[name] for bundle in fragments[home].queries
                   if not bundle.leaving]
        reports = {query: report for query, report in queries if report is not None}
        if len(reports) == len(queries) and any(is_overloaded(
                report, waiting.get(query, 0), usual_interval_s=world.usual_interval_s)
                for query, report in reports.items()):
            yield name


def _report_of(world: World, bundle: RunningBundle) -> QueryReport | None:
    """The newest report of a query that has run for a while; of another one None."""
    node, report = world.reports.node(node_of(bundle.slot)), world.reports.query(bundle.slot, bundle.id)
    return report if node is not None and report is not None and is_settled(report, at_ms=node.at_ms) else None
