"""The users of a node's queries, and their teams' choices for those that are too slow: read in three statements.

A node's part of the estate has no dataflows in it, for a source may have 20,000 users: what counts is kept by team.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from django.db.models import Count, Q

from dashboard.catalog.models import DataflowRecord
from dashboard.operations.models import FragmentRow, TeamUse, Use
from scheduler.model.behind import SPILL, Needed, heads_of
from scheduler.model.estate import Estate


def needs_in_part(estate: Estate) -> dict[str, Needed]:
    """The users of the first task of each fragment of a part of the estate, by running task."""
    heads = heads_of(estate)
    working: dict[str, Counter[str]] = {}
    for use in TeamUse.objects.filter(running_task__in=heads).select_related("team"):
        working.setdefault(use.running_task_id, Counter())[use.team.slug] += use.dataflows - use.paused
    others = _choices_but_spill(heads)
    return {
        head: Needed(
            by_team.total(), tuple(sorted(team for team, count in by_team.items() if count)),
            next((choice for choice, count in others.get(head, {}).items() if count == by_team.total()), SPILL))
        for head, by_team in working.items()}


def _choices_but_spill(heads: Collection[str]) -> dict[str, dict[str, int]]:
    """The number of dataflows that are not paused by their other choice, by running task."""
    choosing = DataflowRecord.objects.exclude(when_behind=SPILL).exclude(when_behind="", team__when_behind=SPILL)
    if not choosing.exists():
        return {}
    rows = Use.objects.filter(running_task__in=heads, paused=False, dataflow__in=choosing).values_list(
        "running_task", "dataflow__when_behind", "dataflow__team__when_behind").annotate(
        dataflows=Count("dataflow", distinct=True)).order_by()
    counts: dict[str, dict[str, int]] = {}
    for task, of_dataflow, of_team, dataflows in rows:
        by_choice = counts.setdefault(task, {})
        by_choice[of_dataflow or of_team] = by_choice.get(of_dataflow or of_team, 0) + dataflows
    return counts


def head_of(query_id: str) -> str:
    """The first task of a query, by fragment or bundle id; nothing where the estate has no such query."""
    rows = FragmentRow.objects.filter(Q(pk=query_id) | Q(bundle_slots__bundle=query_id))
    tasks = rows.values_list("tasks", flat=True).first()
    return tasks[0] if tasks else ""


def working_users(fragment_head: str, *, choice: str = "") -> list[DataflowRecord]:
    """The dataflows that need a running task and are not paused; those with a choice, where one is given."""
    chosen = Q(when_behind=choice) | Q(when_behind="", team__when_behind=choice) if choice else Q()
    ids = Use.objects.filter(running_task=fragment_head, paused=False).values("dataflow")
    return list(DataflowRecord.objects.filter(chosen, pk__in=ids).select_related("team").order_by("pk"))
