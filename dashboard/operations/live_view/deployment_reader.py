"""The queries of each slot, their load, and the traffic between queries: for the page, the API and OTD.

- ``deployment_of(view, cores, behind)``: as a value of ``scheduler.deployment``
- ``thresholds()``: when a slot has too much or little to do, and what is worth a move
- ``bytes_between_nodes(view, tasks)``: what an event of each task sends to other nodes, of the queries of some tasks
- ``look()``: the whole of it as it is reported now
- ``deployment_rows(viewer, looked)``: slots, their queries and the traffic between slots, for pages and the API
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.lifecycle import RUNNING
from dashboard.operations.estate_store.file_secrets import file_secrets
from dashboard.operations.estate_store.offered_slots import closed_slots, offered_slots
from dashboard.operations.live_view.drained_nodes import LEAVES
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.query_names import name_of_query
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.teams.permissions import Viewer
from scheduler.controllers.evidence import placing
from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.foreseeing import load_of
from scheduler.deployment.online import Thresholds
from scheduler.model.fragment import Fragment, RunningBundle, Slot, node_of
from scheduler.model.node_parts import FileSecrets
from scheduler.moving import slots_for, why_not_moved


def deployment_of(
    view: View, cores: Mapping[str, float] | None = None, behind: Collection[str] = frozenset()
) -> Deployment:
    """The present deployment, by a view and its reading: see `scheduler.controllers.evidence.placing`."""
    estate = view.estate
    facts = placing.DeploymentFacts(
        estate, jobs.task_types(), view.reading.reports,
        {name: flow.rate_per_s for name, flow in view.reading.flows.tasks.items()},
        waiting=jobs.waiting_events(estate, placing.working_in(estate).values()),
        event_bytes=jobs.event_bytes(placing.channels_between(estate)),
        targets=[slot.name for slot in _targets(view)], file_secrets=file_secrets(estate.tasks.values()))
    return placing.deployment_of(facts, cores, behind)


def thresholds() -> Thresholds:
    """The thresholds of high and low slots, and of the saving that a move needs in the traffic between nodes."""
    return Thresholds(score_change=1000 * settings.DEPLOYMENT_LEAST_KB_S)


def bytes_between_nodes(view: View, tasks: Collection[str]) -> dict[str, float]:
    """The bytes that each event of a task sends between nodes, to or from the queries that some tasks are in now."""
    return placing.bytes_between_nodes(
        view.estate, tasks, jobs.event_bytes(placing.channels_between(view.estate, tasks)))


def _targets(view: View) -> list[Slot]:
    """The slots that queries may go to: those on offer, of nodes that report now."""
    offered = set(offered_slots().values_list("name", flat=True))
    return [slot for slot in view.estate.slots if slot.name in offered and slot.node in view.reading.reports]


@dataclass(frozen=True, slots=True)
class Looked:
    """The whole present deployment, by the reports of one moment; and the slots that queries may go to."""

    view: View
    deployment: Deployment
    open_slots: tuple[Slot, ...]


def look() -> Looked | None:
    """The present deployment; None where nothing is heard of what runs."""
    view = view_for(EVERYTHING)
    return Looked(view, deployment_of(view), tuple(_targets(view))) if view.reading.available else None


def deployment_rows(viewer: Viewer, looked: Looked | None) -> dict[str, Any]:
    """Slots with their load and queries, and what passes between slots, as a
    `dashboard.api.answers.deployment.DeploymentAnswer`.

    Whatever belongs to dataflows that the viewer may not know of counts in the load of its slot alone.
    """
    if looked is None:
        return {"available": False, "slots": [], "traffic": [], "pairs": [], "between_nodes": 0.0, "queries": 0}
    view, deployment = view_for(viewer), looked.deployment
    on_nodes = file_secrets(view.estate.tasks.values())
    visible = {bundle.id: (fragment, bundle) for fragment in view.fragments() for bundle in fragment.queries}
    queries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for bundle in deployment.bundles.values():
        if bundle.id in visible:
            queries[bundle.slot].append(
                _query(view, *visible[bundle.id], bundle.queue, slots=looked.open_slots, on_nodes=on_nodes))
    visible_deployment = replace(deployment, traffic={
        pair: rate for pair, rate in deployment.traffic.items() if visible.keys() >= set(pair)})
    pairs = [
        {"source": source, "target": target,
         "bytes_per_s": round(visible_deployment.traffic.get((source, target), 0.0), 1),
         "events_per_s": round(events, 3)}
        for (source, target), events in deployment.events.items() if {source, target} <= visible.keys()]
    return {
        "available": True, "slots": list(_slots(looked, queries)), "queries": len(visible),
        "traffic": _by_slots(deployment, pairs),
        "pairs": sorted(pairs, key=lambda row: (-row["bytes_per_s"], row["source"], row["target"])),
        "between_nodes": round(visible_deployment.share_between_nodes, 4)}


def _by_slots(deployment: Deployment, pairs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The traffic from slot to slot, from the traffic from query to query."""
    between: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in pairs:
        rates = between[deployment.bundles[row["source"]].slot, deployment.bundles[row["target"]].slot]
        rates[0] += row["bytes_per_s"]
        rates[1] += row["events_per_s"]
    return [
        {"source": source, "target": target, "bytes_per_s": round(size, 1), "events_per_s": round(events, 3)}
        for (source, target), (size, events) in sorted(between.items())]


def _slots(looked: Looked, queries: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """All slots by name: also those that nothing may go to, which say why."""
    limits, closed, loads = thresholds(), closed_slots(), looked.deployment.loads
    for slot in sorted({*loads, *(slot.name for slot in looked.view.estate.slots)}):
        cores, node = loads.get(slot, 0.0), node_of(slot)
        heard = node in looked.view.reading.reports
        yield {
            "slot": slot, "node": node, "cores": round(cores, 3), "load": load_of(cores, limits),
            "closed": closed.get(slot, "" if heard else f"{node} does not report"),
            "queries": sorted(queries.get(slot, ()), key=lambda row: (-(row["cores"] or 0.0), row["id"]))}


def _query(
    view: View, fragment: Fragment, bundle: RunningBundle, waiting: float, *, slots: Sequence[Slot],
    on_nodes: FileSecrets,
) -> dict[str, Any]:
    estate, cores, types = view.estate, placing.cpu_of(view.reading.reports, bundle), jobs.task_types()
    why_not = LEAVES if bundle.leaving else why_not_moved(estate, fragment, task_types=types)
    users = [
        user for user in view.users(fragment.active_tasks)
        if user["id"] in view.own_ids and view.records[user["id"]].status == RUNNING]
    return {
        "id": bundle.id, "state": view.bundle_report(bundle).state,
        "name": name_of_query(view, fragment),
        "cores": None if cores is None else round(cores, 4), "waiting": round(waiting),
        "users": view.users(fragment.active_tasks),
        "dataflow": users[0] if users else None, "why_not": why_not,
        "targets": [] if why_not or not users else list(
            slots_for(estate, fragment, bundle, slots, task_types=types, file_secrets=on_nodes))}
