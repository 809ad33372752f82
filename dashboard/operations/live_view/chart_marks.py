"""Marks: what happened to a subject, and to what it runs on, over a time; read from history.

Whatever writes annotations is shown by them: plans, what nodes tell, findings, and alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dashboard.history import query_lines
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.live_view.estate_history import require_known
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.query_names import names_of_queries
from dashboard.operations.live_view.query_places import query_now
from dashboard.teams.permissions import Viewer
from dashboard.teams.selectors import slugs_known_to
from scheduler.history.series import ALARM, DATAFLOW, ESTATE, NODE, OVER, QUERY, SLOT, STREAM, TASK, Annotation
from scheduler.model.fragment import Fragment, node_of

Subject = tuple[str, str]  # kind and id, as history has them
MOST_MARKS = 200
SMALL = frozenset({"repaced"})  # what controllers change every few seconds, without effect on outputs
_TROUBLE = frozenset({ALARM, "fragment_failed", "slot_died", "joined_late", "failed"})


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that happened: when, its word (``submit``, ``alarm``, …), to whom, and a sentence where there is one.

    ``subject`` is as people name it: a dataflow by its name, a query by its tasks.

    ``tone`` is ``bad`` (something began to be wrong), ``ok`` (it was over) or ``change`` (a plan, a move, a restart).
    """

    at_s: int
    what: str
    kind: str
    subject: str
    text: str
    tone: str


def marks_of(
    viewer: Viewer, kind: str, subject: str, *, begin_s: int, end_s: int, view: View | None = None
) -> Sequence[Mark]:
    """The marks of a time on a subject and on what it runs on, the oldest first; each thing once."""
    view = view or view_for(viewer)
    require_known(viewer, kind, subject, view=view)
    subjects = {(kind, subject), *related(view, kind, subject)}
    queries = [name for part, name in subjects if part == QUERY]
    if queries:
        subjects |= {(QUERY, former) for former in query_lines.before(queries, since_s=begin_s)}
    notes = DatabaseHistory().annotations(
        begin_s=begin_s, end_s=end_s, subjects=sorted(subjects), teams=slugs_known_to(viewer))
    own_first = sorted(notes, key=lambda note: (note.at_s, (note.kind, note.subject) != (kind, subject)))
    named = names_of_queries(view, {note.subject for note in notes if note.kind == QUERY})
    return _newest([_mark(view, note, named) for note in _each_once(own_first)])


def related(view: View, kind: str, subject: str) -> frozenset[Subject]:
    """The subjects whose marks say something of another: what it works in, and where that runs."""
    return frozenset(_RELATED[kind](view, subject)) if kind in _RELATED else frozenset()


def _newest(marks: Sequence[Mark]) -> Sequence[Mark]:
    """The newest `MOST_MARKS`. Small changes give way: else a busy machine's would hide what matters."""
    others = [mark for mark in marks if mark.what not in SMALL][-MOST_MARKS:]
    small = [mark for mark in marks if mark.what in SMALL]
    return sorted([*others, *small[max(0, len(small) + len(others) - MOST_MARKS):]], key=lambda mark: mark.at_s)


def _each_once(notes: Sequence[Annotation]) -> Iterator[Annotation]:
    """A plan is noted of its dataflow and of every query that it changed, an alarm of all that it concerns."""
    seen_notes: set[tuple[int, str, str]] = set()
    for note in notes:
        key = (note.at_s, note.what, note.text)
        if not note.text or key not in seen_notes:
            seen_notes.add(key)
            yield note


def _mark(view: View, note: Annotation, queries: Mapping[str, str]) -> Mark:
    tone = "bad" if note.what in _TROUBLE else "ok" if note.what == OVER else "change"
    subject = note.subject
    if note.kind == DATAFLOW:
        subject = view.records[subject].name if subject in view.records else ""
    elif note.kind == QUERY:
        subject = queries[subject]
    elif note.kind in (TASK, STREAM):
        subject = " → ".join(
            view.name_of(task) if task in view.estate.tasks else task for task in subject.split(">"))
    return Mark(note.at_s, note.what, note.kind, subject, view.in_words(note.text), tone)


# What belongs to what -------------------------------------------------------------------------------------------------


def _places(fragment: Fragment) -> Iterator[Subject]:
    yield QUERY, fragment.id
    for bundle in fragment.queries:
        yield QUERY, bundle.id
        yield SLOT, bundle.slot
        yield NODE, node_of(bundle.slot)


def _of_tasks(view: View, tasks: Collection[str]) -> Iterator[Subject]:
    for fragment in view.fragments():
        if not set(tasks).isdisjoint(fragment.active_tasks):
            yield from _places(fragment)
    for task in tasks:
        yield TASK, task


def _of_dataflow(view: View, dataflow: str) -> Iterator[Subject]:
    entry = view.estate.submitted.get(dataflow)
    if entry is not None and dataflow in view.records:
        yield from _of_tasks(view, set(entry.running.values()))


def _of_query(view: View, query: str) -> Iterator[Subject]:
    if place := query_now(view, query):
        fragment, bundle = place
        yield from ((QUERY, fragment.id), (QUERY, bundle.id), (SLOT, bundle.slot), (NODE, node_of(bundle.slot)))


def _on_slots(view: View, slots: Collection[str]) -> Iterator[Subject]:
    for fragment in view.fragments():
        for bundle in fragment.queries:
            if bundle.slot in slots:
                yield from ((QUERY, fragment.id), (QUERY, bundle.id))
    for slot in slots:
        yield from ((SLOT, slot), (NODE, node_of(slot)))


def _estate_subjects(view: View, _: str) -> Iterator[Subject]:
    """The subjects of the estate: plans by their dataflows, and what became of slots and nodes."""
    for dataflow in view.records:
        yield DATAFLOW, dataflow
    for slot in view.estate.slots:
        yield from ((SLOT, slot.name), (NODE, slot.node))


_RELATED: Mapping[str, Callable[[View, str], Iterator[Subject]]] = {
    ESTATE: _estate_subjects,
    DATAFLOW: _of_dataflow,
    TASK: lambda view, task: _of_tasks(view, [task]),
    STREAM: lambda view, stream: _of_tasks(view, stream.split(">")),
    QUERY: _of_query,
    SLOT: lambda view, slot: _on_slots(view, [slot]),
    NODE: lambda view, node: _on_slots(view, [slot.name for slot in view.estate.slots if slot.node == node]),
}
