"""Moves of queries that were carried out lately, each with the pause that was measured of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED, ROLLED_BACK, ROLLING_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.selectors import proposals
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.live_view.handover_pauses import HANDED_OVER
from dashboard.operations.models import HandoverPause
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import Viewer
from scheduler.history.series import QUERY
from scheduler.model.fragment import Fragment
from scheduler.model.plan import Plan

LISTED = 8
MOST_PAUSES = 40  # of moves in a time: more would hide what a chart is of
BEGUN = (EXECUTING, FAILED, DONE, ROLLING_BACK, ROLLED_BACK)
PAUSE_IS_TOLD_WITHIN_S = 120  # of when the plan was done


@dataclass(frozen=True, slots=True)
class RecentMove:
    """A move: its proposal, the query that ended, its tasks by name, the one that goes on, the two slots, when, and the
    pause in words.

    ``heir`` and ``source`` are empty where the plan tells no more; ``pause`` where nothing was measured.
    """

    proposal: Proposal
    query: str
    name: str
    heir: str
    source: str
    target: str
    at: datetime | None
    pause: str


def recent_moves(viewer: Viewer) -> list[RecentMove]:
    """The newest moves that the viewer may know of, of those that began to be carried out."""
    rows = proposals(viewer).relocating().filter(status__in=BEGUN)[:LISTED]
    return [move for row in rows for move in _moves(row)][:LISTED]


@dataclass(frozen=True, slots=True)
class MovePause:
    """Time in which nothing worked at the tasks of a query that was moved, as its node measured, and their names."""

    name: str
    begin_ms: int
    end_ms: int


def pauses_of_moves(
    viewer: Viewer, *, begin_s: int, end_s: int, tasks: Collection[str] | None = None
) -> list[MovePause]:
    """The measured pauses of moves that the viewer may know of, the oldest first.

    Parameters
    ----------
    begin_s, end_s : int
        The time in which the pauses ended, in seconds since the epoch.
    tasks : collection of str, optional
        Running tasks, of which a moved query has one; all where none are given.
    """
    # Charts ask each second: without a handover in their range no plan is read.
    measured = {pause.query: pause for pause in HandoverPause.objects.filter(
        at_ms__range=(1000 * begin_s, 1000 * end_s)).order_by("at_ms")}
    if not measured:
        return []
    pauses = []
    for proposal in proposals(viewer).relocating().filter(status__in=BEGUN)[:MOST_PAUSES]:
        plan = plan_of(proposal.plan)
        # Ids are never given twice: a query of the plan that was not there before is one that it moved.
        ids_before = {bundle.id for before in plan.fragments_before.values() for bundle in before.queries}
        for fragment in plan.fragments_after.values():
            if tasks is not None and set(tasks).isdisjoint(fragment.active_tasks):
                continue
            pauses += [
                MovePause(_name(plan, fragment), pause.at_ms - pause.gap_ms, pause.at_ms)
                for bundle in fragment.queries if bundle.id not in ids_before
                and (pause := measured.get(bundle.id)) is not None]
    return sorted(pauses, key=lambda pause: pause.begin_ms)


def _name(plan: Plan, fragment: Fragment) -> str:
    """The tasks of a query by the names that the dataflow of its plan gives them."""
    named = {running: name for name, running in plan.dataflow.running.items()}
    return " → ".join(named[task] for task in fragment.active_tasks if task in named) or fragment.id


def _moves(proposal: Proposal) -> list[RecentMove]:
    """The queries that went to a slot by one plan."""
    options, plan = proposal.plan.options, plan_of(proposal.plan)
    return [_move(proposal, plan, query) for query in (str(options.get("query", "")), *options.get("along", ()))]


def _move(proposal: Proposal, plan: Plan, query: str) -> RecentMove:
    target = str(proposal.plan.options.get("slot", ""))
    source, name = next((
        (bundle.slot, _name(plan, fragment)) for fragment in plan.fragments_before.values()
        for bundle in fragment.queries if bundle.id == query), ("", query))
    heir = next((
        bundle.id for fragment in plan.fragments_after.values() for bundle in fragment.queries
        if query in fragment.inherited_by(bundle)[0]), "")
    return RecentMove(proposal, query, name, heir, source, target, proposal.approved_at, _pause(proposal, heir))


def _pause(proposal: Proposal, heir: str) -> str:
    """The pause of a handover, as its node reported it: for how long nothing worked at the query's tasks."""
    begun = proposal.approved_at or proposal.created
    end = proposal.finished_at or proposal.changed
    if not heir:
        return ""
    notes = DatabaseHistory().annotations(
        begin_s=int(begun.timestamp()), end_s=int(end.timestamp()) + PAUSE_IS_TOLD_WITHIN_S, subjects=[(QUERY, heir)])
    return next((note.text for note in notes if note.what == HANDED_OVER), "")
