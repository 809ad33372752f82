"""Logs as people read them: the newest lines of a dataflow, of one of its tasks, and of a process of a node."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from dashboard import node_calls
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.readable import may_read_all
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.teams.permissions import Viewer, require_superuser
from dashboard.teams.services import InvalidValue
from scheduler.contracts.logs import (
    INFO,
    LEVELS,
    LINES,
    MOST_LINES,
    SEARCHED,
    LogAnswer,
    LogLine,
    LogOrder,
    LogQuestion,
)
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.fragment import Fragment, node_of

__all__ = ["INFO", "LEVELS", "LINES", "MOST_LINES", "LogQuestion", "ReadLog", "dataflow_log", "process_log"]
CONNECTORS, SPARE = "connectors", "spare"  # processes of a node besides its slots
_CURSOR = re.compile(r"[0-9a-f]{1,16}:\d{1,18}")  # of one node's answer


@dataclass(frozen=True, slots=True)
class ReadLogLine:
    """A line. ``at_ms`` is when it was written, since the epoch; ``process`` is a slot's index, ``spare`` or
    ``connectors``; ``task`` is the dataflow's own name of it, and empty where the line is its query's."""

    at_ms: int
    level: str
    node: str
    process: str
    query: str
    task: str
    text: str


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Lines, the oldest first; ``after`` to go on from here; how many older ones were left out; and the nodes that did
    not answer."""

    lines: Sequence[ReadLogLine]
    after: str
    left_out: int
    missing: Sequence[str]


def dataflow_log(
    viewer: Viewer, dataflow_id: UUID | str, question: LogQuestion, *, task: str = ""
) -> ReadLog:
    """The newest lines of a dataflow's queries and tasks, or of one task and the queries that it works in.

    Raises
    ------
    NotFound
        There is no such dataflow for them, or it has no such task in the estate.
    PermissionDenied
        They are of no team of the dataflow, or its events are read with another team's credential: lines may show
        values of events.
    InvalidValue
        There is no such level.
    BrokerAway
        The broker does not answer.
    """
    record = dataflow_for(viewer, dataflow_id)
    if not viewer.sees_private_of(record.team_id):
        raise PermissionDenied(
            "Lines of a log may show values of events.", remedy="Members of the dataflow's team read them.",
            team=record.team.slug)
    view, key = view_for(viewer), str(record.pk)
    entry = view.estate.submitted.get(key)
    running = dict(entry.running) if entry else {}
    if task and task not in running:
        raise NotFound("This dataflow has no such task that runs.", remedy="See its graph for those that there are.")
    wanted_tasks = {running[task]} if task else set(running.values())
    readable = {name for name in wanted_tasks if may_read_all(viewer, view.estate, [name])}
    if wanted_tasks and not readable:
        raise PermissionDenied(
            "These events are read with another team's credential.", remedy="Only members of that team read its log.")
    names = {number: name for name, number in running.items()}
    return _read(_orders_of(viewer, view, readable), question, names, view, key)


def process_log(viewer: Viewer, node: str, process: str, question: LogQuestion) -> ReadLog:
    """The newest lines that a process of a node writes, whosever they are; for administrators."""
    require_superuser(viewer)
    view = view_for(viewer)
    slots = {slot.index for slot in view.estate.slots if slot.node == node}
    if not slots or process not in {CONNECTORS, SPARE, *map(str, slots)}:
        raise NotFound("There is no such process.", remedy="Name a slot's index, “spare” or “connectors” of a node.")
    return _read({node: LogOrder(id="", node=node, process=process)}, question, {}, view, "")


def _orders_of(viewer: Viewer, view: View, tasks: Collection[str]) -> dict[str, LogOrder]:
    """The order to each node, by node.

    Of a query that ended it is asked where the viewer may read what leaves the tasks of all that go on with its work.
    """
    fragments = [fragment for fragment in view.fragments() if not tasks.isdisjoint(fragment.active_tasks)]
    ids = {query for fragment in fragments for _, query in _queries_of(fragment)}
    withheld = {
        query for fragment in view.estate.fragments.values() for _, query in _queries_of(fragment)
        if query in ids and not may_read_all(viewer, view.estate, fragment.active_tasks)}
    queries: dict[str, list[str]] = {}
    for fragment in fragments:
        for node, query in _queries_of(fragment):
            queries.setdefault(node, []).extend([query] if query not in withheld else [])
    return {node: LogOrder(id="", node=node, queries=tuple(names), tasks=tuple(sorted(tasks)))
            for node, names in queries.items()}


def _queries_of(fragment: Fragment) -> Iterator[tuple[str, str]]:
    """The queries that work at a fragment, with their nodes, and those whose work they go on with."""
    for bundle in fragment.queries:
        for query in (bundle.id, *fragment.inherited_by(bundle)[0]):
            yield node_of(bundle.slot), query


def _read(
    orders: dict[str, LogOrder], question: LogQuestion, names: dict[str, str], view: View, dataflow_id: str
) -> ReadLog:
    if question.level not in LEVELS:
        raise InvalidValue(
            f"There is no level {question.level[:40]}.", remedy=f"Name one of {', '.join(LEVELS)}.", parameter="level")
    count = max(1, min(question.count, MOST_LINES))
    question_fields = asdict(replace(question, search=question.search[:SEARCHED], count=count))
    cursors = dict(part.split("=", 1) for part in question.after.split(",") if "=" in part)
    reporting = [name for name in sorted(orders) if view.node_report(name) is not None]
    answers = node_calls.read_logs([
        replace(orders[node], **question_fields | {
            "id": secrets.token_hex(16),
            "after": cursor if _CURSOR.fullmatch(cursor := cursors.get(node, "")) else ""})
        for node in reporting]) if reporting else {}
    entries = sorted(
        ((node, line) for node, answer in answers.items() for line in answer.lines), key=lambda pair: pair[1].at_ms)
    newest = entries[-count:]
    return ReadLog(
        [_line(node, line, names, view, dataflow_id) for node, line in newest], _cursor(cursors, answers),
        len(entries) - len(newest) + sum(answer.left_out for answer in answers.values()),
        sorted(orders.keys() - answers.keys()))


def _cursor(cursors: dict[str, str], answers: dict[str, LogAnswer]) -> str:
    """The cursor of the next question; as before at nodes that did not answer."""
    cursors = cursors | {node: answer.after for node, answer in answers.items()}
    return ",".join(f"{node}={cursor}" for node, cursor in sorted(cursors.items()) if _CURSOR.fullmatch(cursor))


def _line(node: str, line: LogLine, names: dict[str, str], view: View, dataflow_id: str) -> ReadLogLine:
    return ReadLogLine(
        line.at_ms, line.level, node, line.process, line.query, names.get(line.task, line.task),
        view.in_words(line.text, dataflow_id))


def as_text(log: ReadLog) -> Iterable[str]:
    """Lines as a file has them, each with its end; of one that goes over several all but the first are indented, so
    that none looks as if another process had written it."""
    for line in log.lines:
        at = datetime.fromtimestamp(line.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        whose = line.task or line.query or line.process
        text = "\n    ".join(line.text.splitlines())
        yield f"{at} {line.level:7} {line.node}/{line.process} {whose}: {text}\n"
