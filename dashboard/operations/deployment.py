"""What runs on which slot, what each query takes, and what passes between queries: for the page, the API and OTD.

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
from typing import Any, NamedTuple

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.lifecycle import RUNNING
from dashboard.operations.draining import LEAVES
from dashboard.operations.file_secrets import file_secrets
from dashboard.operations.offered_slots import closed_slots, offered_slots
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import View, view_for
from dashboard.teams.permissions import Viewer
from scheduler.deployment.foreseeing import load_of
from scheduler.deployment.online import Thresholds
from scheduler.deployment.values import Deployment, PlacedBundle
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment, RunningBundle, Slot, node_of
from scheduler.moving import FileSecrets, slots_for, why_not_moved, why_not_to_other_nodes
from scheduler.reuse.division import is_placed


def deployment_of(
    view: View, cores: Mapping[str, float] | None = None, behind: Collection[str] = frozenset()
) -> Deployment:
    """The bundles of a view on their slots, the events that wait for each, and what passes between them in a second.

    What a schedule has put somewhere is not moved but by people: it was approved with what it promises there.

    Parameters
    ----------
    cores : mapping of str to float, optional
        What queries take, in cores; what their nodes report now, where none is given.

    Raises
    ------
    BrokerAway
        The sizes of events are not known.
    """
    estate, types = view.estate, jobs.task_types()
    working = _working(view)
    queues = jobs.waiting_events(estate, working.values())
    on_nodes = file_secrets(estate.tasks.values())
    bundles: dict[str, PlacedBundle] = {}
    for fragment in working.values():
        # What is on a silent node would leave it only once the node is back, and all other plans would wait for that.
        is_heard = all(node_of(bundle.slot) in view.reading.reports for bundle in fragment.queries)
        is_movable = is_heard and not why_not_moved(estate, fragment, task_types=types) and not is_placed(
            estate, fragment, _users(view, fragment))
        for bundle in fragment.queries:
            is_bound = is_movable and bool(
                why_not_to_other_nodes(estate, fragment, bundle, task_types=types, file_secrets=on_nodes))
            known = (cores or {}).get(bundle.id, _cpu(view, bundle))
            bundles[bundle.id] = PlacedBundle(
                bundle.id, bundle.slot, known or 0.0, movable=is_movable, node_bound=is_bound,
                queue=float(queues.get(bundle.id, 0)), behind=bundle.id in behind)
    traffic: dict[tuple[str, str], float] = defaultdict(float)
    events: dict[tuple[str, str], float] = defaultdict(float)
    for stream in _streams(working):
        flow = view.reading.flows.tasks.get(stream.task)
        if flow is not None:
            pair = stream.source.id, stream.target.id
            events[pair] += flow.rate_per_s * stream.share
            if stream.event_bytes is not None:
                traffic[pair] += flow.rate_per_s * stream.share * stream.event_bytes
    targets = frozenset(slot.name for slot in _targets(view))
    return Deployment(
        bundles, sorted(targets.union(bundle.slot for bundle in bundles.values())), dict(traffic), targets,
        dict(events))


def thresholds() -> Thresholds:
    """When a slot is high or low, and what a move has to save of the traffic between nodes."""
    return Thresholds(score_change=1000 * settings.DEPLOYMENT_LEAST_KB_S)


def bytes_between_nodes(view: View, tasks: Collection[str]) -> dict[str, float]:
    """What each event of a task sends between nodes, to or from the queries that some tasks are in now.

    Returns
    -------
    dict
        Bytes an event by running task; only of tasks that send any.

    Raises
    ------
    BrokerAway
        The sizes of events are not known.
    """
    estate = view.estate
    names = {estate.places[task][0] for task in tasks if task in estate.places}
    sent: dict[str, float] = defaultdict(float)
    for stream in _streams(_working(view), about=names):
        if node_of(stream.source.slot) != node_of(stream.target.slot) and stream.event_bytes is not None:
            sent[stream.task] += stream.event_bytes * stream.share
    return dict(sent)


def _targets(view: View) -> list[Slot]:
    """The slots that queries may go to: those on offer, of nodes that report now."""
    offered = set(offered_slots().values_list("name", flat=True))
    return [slot for slot in view.estate.slots if slot.name in offered and slot.node in view.reading.reports]


def _cpu(view: View, bundle: RunningBundle) -> float | None:
    """What a bundle takes now, in cores; None where its node has not measured that yet."""
    report = view.reading.reports.query(bundle.slot, bundle.id)
    return None if report is None else report.cpu


def _users(view: View, fragment: Fragment) -> list[Submitted]:
    """The dataflows that work in a fragment."""
    estate = view.estate
    users = {user for task in fragment.active_tasks for user in estate.users.get(task, ())}
    return [estate.submitted[user] for user in users]


def _working(view: View) -> dict[str, Fragment]:
    return {name: fragment for name, fragment in view.estate.fragments.items() if fragment.active_tasks}


class _Stream(NamedTuple):
    """A stream between two queries: its task, who writes and who reads, what part of its events passes there, and bytes
    that one has in the mean; None where nobody has sized them."""

    task: str
    source: RunningBundle
    target: RunningBundle
    share: float
    event_bytes: float | None


def _streams(working: Mapping[str, Fragment], about: Collection[str] | None = None) -> Iterator[_Stream]:
    """Every stream between two queries; where fragments are named, only streams to and from these."""
    ends = [
        (writer, task, working[reader]) for writer in working.values() for task, readers in writer.outlets.items()
        for reader in readers if reader in working and (about is None or {writer.id, reader} & set(about))]
    sizes = jobs.event_bytes({channel for writer, task, _ in ends for channel in writer.channels_of(task)})
    for writer, task, reader in ends:
        known = [sizes[channel] for channel in writer.channels_of(task) if channel in sizes]
        for source, part in _shares(writer):
            for target, other in _shares(reader):
                yield _Stream(task, source, target, part * other, max(known, default=None))


def _shares(fragment: Fragment) -> list[tuple[RunningBundle, float]]:
    """What part of a stream each bundle of a fragment has."""
    bundles = fragment.queries
    total = sum(bundle.weight for bundle in bundles)
    return [(bundle, bundle.weight / total if total else 0.0) for bundle in bundles]


@dataclass(frozen=True, slots=True)
class Looked:
    """What runs where now, all of it, by the reports of one moment; and the slots that queries may go to."""

    view: View
    deployment: Deployment
    open_slots: tuple[Slot, ...]


def look() -> Looked | None:
    """What runs where now; None where nothing is heard of what runs.

    Raises
    ------
    BrokerAway
        The sizes of events are not known.
    """
    view = view_for(EVERYTHING)
    return Looked(view, deployment_of(view), tuple(_targets(view))) if view.reading.available else None


def deployment_rows(viewer: Viewer, looked: Looked | None) -> dict[str, Any]:
    """Slots with their load and queries, and what passes between slots.

    Returns
    -------
    dict
        ``slots``: ``slot``, ``node``, ``cores``, ``load`` (``high``, ``normal`` or ``low``), ``closed`` (why nothing
        more may go there; empty where it may) and ``queries``: ``id``, ``name`` (its tasks in words), ``cores`` (None:
        not measured yet), ``waiting`` (events that wait for it), ``dataflow`` (id and name, the one to ask for),
        ``targets`` and ``why_not``; ``traffic``: bytes and events a second by pair of slots, as rows; ``pairs``: the
        same by pair of queries, most bytes first; ``between_nodes``: the part of the bytes that passes between nodes.
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
    seen = replace(deployment, traffic={
        pair: rate for pair, rate in deployment.traffic.items() if visible.keys() >= set(pair)})
    pairs = [
        {"source": source, "target": target, "bytes_per_s": round(seen.traffic.get((source, target), 0.0), 1),
         "events_per_s": round(events, 3)}
        for (source, target), events in deployment.events.items() if {source, target} <= visible.keys()]
    return {
        "available": True, "slots": list(_slots(looked, queries)), "queries": len(visible),
        "traffic": _by_slots(deployment, pairs),
        "pairs": sorted(pairs, key=lambda row: (-row["bytes_per_s"], row["source"], row["target"])),
        "between_nodes": round(seen.share_between_nodes, 4)}


def _by_slots(deployment: Deployment, pairs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What passes from slot to slot, of what passes from query to query."""
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
            "closed": closed.get(slot, "" if heard else f"nothing is heard of {node}"),
            "queries": sorted(queries.get(slot, ()), key=lambda row: (-(row["cores"] or 0.0), row["id"]))}


def _query(
    view: View, fragment: Fragment, bundle: RunningBundle, waiting: float, *, slots: Sequence[Slot],
    on_nodes: FileSecrets,
) -> dict[str, Any]:
    estate, cores, types = view.estate, _cpu(view, bundle), jobs.task_types()
    why_not = LEAVES if bundle.leaving else why_not_moved(estate, fragment, task_types=types)
    users = [
        user for user in view.users(fragment.active_tasks)
        if user["id"] in view.own and view.records[user["id"]].status == RUNNING]
    return {
        "id": bundle.id, "name": " → ".join(estate.tasks[task].type for task in fragment.active_tasks),
        "cores": None if cores is None else round(cores, 4), "waiting": round(waiting),
        "users": view.users(fragment.active_tasks),
        "dataflow": users[0] if users else None, "why_not": why_not,
        "targets": [] if why_not or not users else list(
            slots_for(estate, fragment, bundle, slots, task_types=types, file_secrets=on_nodes))}
