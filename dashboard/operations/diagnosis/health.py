"""Health: what is wrong with nodes, disks, slots, queries, channels, sources, broker, worker and limits; and remedies.

One model for pages, API, alerts and ``./weir estate``. Findings carry no figure that moves in their text, so that pages
draw them anew only where something changed. What alerts add is a finder of theirs (`add_finder`).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.operations.diagnosis.slow_queries import stuck_queries
from dashboard.operations.diagnosis.slow_readers import held_up, spilled
from dashboard.operations.latency_control.batch_modes import wanted_modes
from dashboard.operations.latency_control.limit_statuses import late_limits
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import BAD, NOTE, WARN, Finding, Verdict, verdict
from dashboard.operations.live_view.lacking_copies import lacking_copies
from dashboard.operations.live_view.live_sources import report_of
from dashboard.operations.live_view.measured_keys import hot_key_findings
from dashboard.operations.live_view.query_names import OF_OTHERS, name_of_query
from dashboard.operations.live_view.query_states import (
    GAVE_UP,
    NODE_SILENT_MS,
    RECOVERING,
    SILENT,
    SILENT_SOURCE,
    THROTTLED,
    wrong_since_ms,
)
from dashboard.operations.live_view.sink_statuses import report_of as sink_report_of
from scheduler.contracts.reports import (
    FAILING,
    RUNNING,
    STALLED,
    ConnectorReport,
    NodeReport,
    QueryReport,
    SinkReport,
    SlotReport,
)
from scheduler.latency.limits_met import IMPOSSIBLE
from scheduler.latency.wanted_modes import WantedModes
from scheduler.model import broker_memory
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.latency_limits import from_json

AWAY, RETRYING = "away", "retrying"  # of a live source, or a sink
LARGEST_STATES = 3  # that are named where a disk is nearly full
FULL, FULL_MB = "full", 64  # so little free space is as good as none
_ORDER = {BAD: 0, WARN: 1, NOTE: 2}
Finder = Callable[[View, Sequence[Finding]], Iterable[Finding]]
_finders: list[Finder] = []


def add_finder(finder: Finder) -> None:
    """Let a layer above add to `health`: it gets a view and its findings, and gives what these do not say."""
    if finder not in _finders:
        _finders.append(finder)


def findings(view: View) -> list[Finding]:
    """The findings that the viewer may know of, the worst first. Found once for all who share the view."""
    return list(view.known_figures.once(("findings", view.own_ids), lambda: _sorted([
        *_site(view), *_nodes(view), *_slots(view), *_queries(view), *hot_key_findings(view), *lacking_copies(view),
        *_limits(view)])))


def health(view: View) -> list[Finding]:
    """The health that a viewer sees: the findings, and the alerts that fire beside them, the worst first."""
    estate_findings = findings(view)
    return list(view.known_figures.once(("health", view.own_ids), lambda: _sorted(
        [*estate_findings, *(finding for finder in _finders for finding in finder(view, estate_findings))])))


def health_document(view: View) -> dict[str, Any]:
    """The same as JSON, by their keys."""
    return {finding.key: asdict(finding) for finding in health(view)}


def verdict_of(document: Mapping[str, Any]) -> Verdict:
    """The verdict over an estate's or a dataflow's live document."""
    return verdict((row["severity"] for row in document["health"].values()), is_heard=document["live"]["available"])


def _sorted(unsorted: Iterable[Finding]) -> list[Finding]:
    return sorted(unsorted, key=lambda finding: (_ORDER[finding.severity], finding.key))


def disk_finding(name: str, free_mb: float | None) -> Finding | None:
    """The finding about the free space of a disk; None if there is enough, or if it is unknown."""
    if free_mb is None or free_mb >= settings.DISK_FREE_MB:
        return None
    if free_mb < FULL_MB:
        return Finding(
            "disk", name, FULL, BAD, f"The disk of {name} is full: nothing can be stored there.",
            "Make room on the file system of the data folder. What stopped for lack of space goes on by itself.")
    return Finding(
        "disk", name, "low", WARN, f"The disk of {name} has less than {settings.DISK_FREE_MB} MB left.",
        "Make room on the file system of the data folder, or remove outputs that nobody needs.")


def site_disk() -> Finding | None:
    """The same of the site's own data folder; ``OSError`` where it is not there."""
    return disk_finding("site", shutil.disk_usage(settings.DATA_DIR).free >> 20)


def _site(view: View) -> Iterator[Finding]:
    if not view.reading.available:
        yield Finding(
            "broker", "broker", "away", BAD, view.reading.reason,
            "Start it, or check REDIS_URL. Running dataflows wait and go on when it answers.")
    elif view.reading.broker_full:
        yield Finding(
            "broker", "broker", FULL, BAD, "The disk of the broker is full: it accepts no events.",
            "Make room there. Running dataflows, nodes and the worker wait, and continue by themselves.")
    elif not view.reading.worker:
        yield Finding(
            "worker", "worker", "away", BAD, "No worker does what is due: plans are neither made nor carried out.",
            "`./weir up` starts one. Running dataflows continue without it.")
    yield from _broker_memory(view.reading.broker_memory)
    if view.reading.broker_alone:
        yield Finding(
            "broker", "replica", "away", WARN,
            "The broker has no replica online: if its machine dies, new events are lost.",
            "Start a replica. Running dataflows continue, unless the broker's min-replicas-to-write refuses events.")
    finding = view.worked.once("disk", site_disk)
    if finding is not None:
        yield _with_largest_states(view, finding, settings.LOCAL_NODE)
    for problem in jobs.plugin_problems():
        yield Finding(
            "package", problem.entry_point, "unreadable", WARN,
            f"Task types of {problem.package} are left out: {problem.message}",
            "Mend or remove that package, then start Weir again. Other task types work.")


def _broker_memory(memory: broker_memory.BrokerMemory) -> Iterator[Finding]:
    if memory.is_crowded():
        yield Finding(
            "broker", "memory", FULL, BAD,
            f"The memory of the broker is nearly full ({memory.held >> 20:,} of {memory.most >> 20:,} MB): sources "
            "wait until there is room. Nothing is lost.", broker_memory.REMEDY)
    if memory.loses:
        yield Finding(
            "broker", "policy", "low", BAD,
            f"The broker drops what it holds when its memory is full (maxmemory-policy {memory.policy}): events "
            "would be lost.", "Set its maxmemory-policy to noeviction.")


def _nodes(view: View) -> Iterator[Finding]:
    if not view.reading.available or view.reading.broker_full:  # nodes cannot be heard
        return
    for name in sorted({slot.node for slot in view.estate.slots}):
        report = view.reading.reports.node(name)
        if report is None or view.reading.reports.age_ms(name) >= NODE_SILENT_MS:
            yield Finding(
                "node", name, SILENT, BAD, f"Node {name} does not report.",
                f"Check the machine and its network, then start its agent: `./weir agent --node {name}`, or "
                "`./weir up` on the site's own machine.",
                dataflows=_users_on(view, {slot.name for slot in view.estate.slots if slot.node == name}))
        elif (finding := disk_finding(name, report.disk_free_mb)) is not None and name != settings.LOCAL_NODE:
            yield _with_largest_states(view, finding, name)


def _with_largest_states(view: View, finding: Finding, node: str) -> Finding:
    """A finding of a disk that is nearly full, with the queries of the viewer's teams whose state is largest there."""
    sizes_kb = Counter({
        view.name_of(fragment.active_tasks[-1]): view.bundle_report(bundle).state_kb or 0
        for fragment in view.fragments() if fragment.active_tasks
        and not view.own_ids.isdisjoint(view.estate.users.get(fragment.active_tasks[-1], ()))
        for bundle in fragment.queries if node_of(bundle.slot) == node})
    largest = [name for name, size_kb in sizes_kb.most_common(LARGEST_STATES) if size_kb]
    if not largest:
        return finding
    return replace(finding, cause=f"{finding.cause} The largest states of your queries there: {', '.join(largest)}.")


def _slots(view: View) -> Iterator[Finding]:
    for slot in view.estate.slots:
        node, report = view.node_report(slot.node), view.reading.reports.slot(slot.name)
        if node is None or report is None or report.state == RUNNING:
            continue
        state, severity, cause, remedy = _slot_words(slot.name, report)
        yield Finding(
            "slot", slot.name, state, severity, cause, remedy, slot=slot.name, since_ms=_since(report, node),
            retry_at_ms=report.retry_at_ms, dataflows=_users_on(view, {slot.name}))


def _slot_words(name: str, report: SlotReport) -> tuple[str, str, str, str]:
    if report.state == STALLED:
        return (STALLED, BAD, f"The driver of {name} does not answer.",
                "Weir ends it after 20 s and starts it again. Its queries go on from their checkpoints.")
    if report.state == "backoff":
        return ("backoff", BAD, f"The driver of {name} ended. {report.error}".strip(),
                "Weir starts it again, less and less often. Administrators find its log on its page.")
    if report.restarts:
        return (RECOVERING, WARN, f"The driver of {name} is starting again. {report.error}".strip(),
                "Its queries go on from their checkpoints as soon as it is up.")
    return ("starting", NOTE, f"The driver of {name} is starting.", "Its queries start as soon as it is up.")


def _since(report: SlotReport, node: NodeReport) -> int | None:
    return node.at_ms - report.silent_ms if report.silent_ms else report.since_ms


def _queries(view: View) -> Iterator[Finding]:
    stuck = view.worked.once("stuck", stuck_queries)
    coming = {finding.name: finding for finding in _coming_back(view)}
    yield from coming.values()
    for fragment in view.fragments():
        if fragment.id in stuck:
            yield held_up(view, fragment, stuck[fragment.id])
        for bundle in fragment.queries:
            slot = view.reading.reports.slot(bundle.slot)
            if slot is not None and slot.state == RUNNING:  # else it is the slot's or the node's
                finding = _query(view, fragment, bundle, view.bundle_report(bundle))
                if finding is not None and not (finding.state == RECOVERING and bundle.slot in coming):
                    yield finding
                if (finding := _live_source(view, fragment, bundle)) is not None:
                    yield finding
                if (finding := _sink(view, fragment, bundle)) is not None:
                    yield finding
                spill = view.reading.reports.spill(bundle.slot, bundle.id)
                if spill is not None:
                    yield spilled(view, fragment, bundle, spill)


def _coming_back(view: View) -> Iterator[Finding]:
    """Slots of which several queries come back after a restart: how many are still to come, of how many."""
    queries: dict[str, list[tuple[Fragment, QueryReport]]] = {}
    for fragment in view.fragments():
        for bundle in fragment.queries:
            queries.setdefault(bundle.slot, []).append((fragment, view.bundle_report(bundle)))
    for name, of_slot in queries.items():
        slot = view.reading.reports.slot(name)
        missing = [fragment for fragment, report in of_slot if report.state == RECOVERING]
        if slot is None or slot.state != RUNNING or not slot.restarts or len(missing) < 2:
            continue
        yield Finding(
            "slot", name, RECOVERING, WARN,
            f"{len(missing)} of {len(of_slot)} queries of {name} have not come back yet since its restart.",
            "They continue from their checkpoints by themselves, the most urgent first.", slot=name,
            since_ms=slot.since_ms,
            dataflows=view.users(task for fragment in missing for task in fragment.active_tasks))


def _live_source(view: View, fragment: Fragment, bundle: RunningBundle) -> Finding | None:
    """A live source that is not read as it should be."""
    report = None if fragment.paused else report_of(view, fragment)
    if report is None or report.state not in (AWAY, RETRYING, THROTTLED):
        return None
    name, users = view.name_of(fragment.tasks[0]), view.users(fragment.active_tasks)
    if report.state == THROTTLED:
        return Finding(
            "source", fragment.tasks[0], THROTTLED, WARN,
            f"{name} waits: its events are read more slowly than they arrive.",
            "Give the slow task more threads by a schedule. Nothing is lost that the source keeps.", slot=bundle.slot,
            since_ms=report.since_ms, dataflows=users)
    return Finding(
        "source", fragment.tasks[0], report.state, BAD, f"{name} cannot be read. {_why(view, report, users)}".strip(),
        "Weir tries again, less and less often, and goes on where it was.", slot=bundle.slot,
        since_ms=report.since_ms, retry_at_ms=report.retry_at_ms, dataflows=users)


def _why(view: View, report: ConnectorReport | SinkReport, users: Iterable[Mapping[str, str]]) -> str:
    """The error of a source or sink, which may name hosts: told only to owners of a dataflow that uses it."""
    return report.error or "" if any(user["id"] in view.own_ids for user in users) else ""


def _sink(view: View, fragment: Fragment, bundle: RunningBundle) -> Finding | None:
    """A sink whose other system is away, or takes nothing."""
    task = fragment.tasks[-1]
    report = sink_report_of(view, fragment, task)
    if report is None or report.state not in (AWAY, RETRYING):
        return None
    users = view.users([task])
    return Finding(
        "sink", task, report.state, BAD,
        f"{view.name_of(task)} cannot be written. {_why(view, report, users)}".strip(),
        "Weir retries, less and less often, and continues where it stopped. Waiting events hold up only what serves "
        "this sink alone.", slot=bundle.slot, since_ms=report.since_ms, retry_at_ms=report.retry_at_ms,
        dataflows=users)


def _limits(view: View) -> Iterator[Finding]:
    """The worst latency limit of each dataflow that is missed for its whole span, or that no intervals meet.

    A limit that is the team's default, which nobody chose for this dataflow, is only noted if it cannot be met.
    """
    rows = view.worked.once(
        "late limits", lambda: late_limits(view.estate, view.reading.reports)) if view.records else {}
    for key in sorted(rows.keys() & view.records.keys()):
        row, record = rows[key], view.records[key]
        (limit,) = from_json(row.limit) or (None,)
        if limit is None:
            continue
        user = {"id": key, "name": record.name, "team": record.team.name}
        opening: WantedModes = view.worked.once("wanted modes", lambda: wanted_modes() or WantedModes())
        remedy = "Open batches would meet it; its page says what they wait for." if opening.meets(key, row.number) \
            else "Its page says where the time goes, and what would meet the limit."
        is_impossible = row.state == IMPOSSIBLE
        verdict = "cannot be met on these slots" if is_impossible else "is missed"
        cause = f"The latency limit of {record.name} {verdict}: {limit.words}."
        severity = NOTE if is_impossible and record.latency_from == "team" else WARN
        since_ms = int((row.late_since or row.since).timestamp() * 1000)
        yield Finding("limit", key, row.state, severity, cause, remedy, since_ms=since_ms, dataflows=[user])


def _query(view: View, fragment: Fragment, bundle: RunningBundle, report: QueryReport) -> Finding | None:
    if report.state == RUNNING:  # as nearly all do: nothing is worded for them
        return None
    tasks = name_of_query(view, fragment)
    if report.state == GAVE_UP:
        part, severity = "query", BAD
        cause = view.in_words(report.error or f"The query of {tasks} fails.")
        failed = f"It failed {report.failures} times in the same way and" if report.failures > 1 else "It"
        remedy = (
            f"{failed} is not tried again. Mend the cause, then choose “Try again” on the dataflow's page, or remove "
            "the dataflow.")
    elif report.state == FAILING or (report.error and report.state not in (RUNNING, THROTTLED, SILENT_SOURCE, STALLED)):
        part, severity = "query", BAD
        cause = view.in_words(report.error or f"The query of {tasks} fails.")
        remedy = "Weir tries again from its checkpoint, less and less often. Mend the cause, or remove the dataflow."
    elif report.state == STALLED:
        part, severity = "query", BAD
        cause = f"The open batch of {tasks} takes no events any more." if report.real_time else (
            f"A batch of {tasks} does not end.")
        remedy = "A task of it waits for something, such as a service that does not answer, or has too much to do."
    elif report.state == RECOVERING:
        part, severity, cause = "query", WARN, f"The query of {tasks} is coming back after a restart."
        remedy = "It goes on from its checkpoint by itself."
    elif report.state == THROTTLED and report.throttled_by == broker_memory.OF_BROKER:
        part, severity, cause, remedy = "source", WARN, waits_because(view, fragment, report), broker_memory.REMEDY
    elif report.state == THROTTLED:
        part, severity, cause = "channel", WARN, waits_because(view, fragment, report)
        remedy = "Give the slow task more threads by a schedule, or pause or remove what reads too slowly."
    elif report.state == SILENT_SOURCE:
        part, severity, cause = "source", NOTE, f"{view.name_of(fragment.tasks[0])} makes no events."
        remedy = "That may be as it should: nothing came, or a recording is at its end."
    else:
        return None
    node = view.node_report(node_of(bundle.slot))
    since_ms = None if node is None else wrong_since_ms(report, at_ms=node.at_ms)
    return Finding(
        part, bundle.id, report.state, severity, cause, remedy, slot=bundle.slot, since_ms=since_ms,
        retry_at_ms=report.retry_at_ms, dataflows=view.users(fragment.active_tasks))


def waits_because(view: View, fragment: Fragment, report: QueryReport) -> str:
    """The reason why a query of a fragment waits before it writes, in a sentence; empty where it does not."""
    tasks = name_of_query(view, fragment)
    if not report.throttled_by:
        return ""
    if report.throttled_by == broker_memory.OF_BROKER:
        return f"{tasks} waits: the memory of the broker is nearly full."
    held_by = _held_by(view, report.throttled_by)
    if held_by.startswith(OF_OTHERS):  # a sentence begins with it
        held_by = f"{held_by[0].upper()}{held_by[1:]}"
    return f"{held_by} reads more slowly than {tasks} writes, which waits."


def _held_by(view: View, channel: str) -> str:
    """The readers of a full channel, by the names of the viewer's dataflows."""
    whole, _, part = channel.partition("@")
    fragment_id = whole.rpartition(".")[0]
    writer = view.fragment_of.get(fragment_id)
    readers = view.fragment_of.get(view.reader_of_part(part))
    if readers is not None:
        return name_of_query(view, readers)
    position = whole.rpartition(".")[2]
    if writer is None or not position.isdecimal() or int(position) >= len(writer.tasks):
        return "A reader"
    names = sorted({
        name_of_query(view, view.estate.fragments[reader])
        for reader in writer.outlets.get(writer.tasks[int(position)], ()) if reader in view.estate.fragments})
    return " or ".join(names) or (
        f"What {view.name_of(writer.tasks[int(position)])} writes to" if int(position) == len(writer.tasks) - 1
        else "A reader")


def _users_on(view: View, slots: Collection[str]) -> list[dict[str, str]]:
    """The viewer's dataflows that work on any of these slots."""
    return view.users(
        task for fragment in view.fragments() if any(bundle.slot in slots for bundle in fragment.queries)
        for task in fragment.active_tasks)
