"""Sentences about readers and tasks that are too slow for a stream that others need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.catalog.lifecycle import PAUSED, PAUSING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import BAD, WARN, Finding
from dashboard.operations.live_view.query_names import name_of_query
from dashboard.operations.models import SlowQuery
from scheduler.contracts.reports import SpillReport
from scheduler.model.behind import LOSE_OLDEST, PAUSE, SPILL
from scheduler.model.fragment import Fragment, RunningBundle

BEHIND = "behind"  # a reader that goes on from disk
HOLDS_UP = "holds_up"  # a task that keeps a query slow which others need
PAUSED_SLOW, PAUSED_FAILED = "paused_slow", "paused_failed"
_REMEDY = "Give the slow task more threads by a schedule, or pause or remove the dataflow."
_KEEP_UP = "Give its slow task more threads by a schedule, or choose that it goes on from disk; then resume it."
_MEND = (
    "Read how it failed in its notable events. Submit a version that names a mended package or another config, or mend "
    "what the task reads; then resume it.")
_GOES_ON = {
    SPILL: "It continues from disk, so that nobody waits for it.",
    PAUSE: "Its dataflow is being paused, as its team chose; until then it continues from disk.",
    LOSE_OLDEST: "It loses the oldest events and continues with the newest, as its team chose: its outputs differ from "
                 "those it would have alone.",
}
_FULL = {
    "full": "what WEIR_SPILL_MB allows is used up", "team_full": "what WEIR_SPILL_TEAM_MB allows its team is used up"}


def spilled(view: View, fragment: Fragment, bundle: RunningBundle, spill: SpillReport) -> Finding:
    """The finding about a reader that is behind on a shared stream; it names the other readers if they are held
    back."""
    tasks = name_of_query(view, fragment)
    if not spill.refused:
        return Finding(
            "spill", bundle.id, BEHIND, WARN,
            f"{tasks} reads more slowly than events come. {_GOES_ON.get(spill.when_behind, _GOES_ON[SPILL])}",
            _REMEDY, slot=bundle.slot, since_ms=spill.since_ms, dataflows=view.users(fragment.active_tasks))
    reason = _FULL.get(spill.refused, spill.refused)
    writer = view.fragment_of.get(spill.channel.partition("@")[0].rpartition(".")[0])
    waiting_dataflows = view.users({*fragment.active_tasks, *(writer.active_tasks if writer is not None else ())})
    return Finding(
        "spill", bundle.id, BEHIND, BAD,
        f"{tasks} reads more slowly than events come, and its node can keep no more for it on disk ({reason}): others "
        "wait for it.",
        _REMEDY, slot=bundle.slot, since_ms=spill.since_ms, dataflows=waiting_dataflows)


def held_up(view: View, fragment: Fragment, slow: SlowQuery) -> Finding:
    """A query that one task holds up while others need a part of it, and that cannot be cut."""
    return Finding(
        "query", f"{fragment.id}/slow", HOLDS_UP, BAD,
        f"{view.name_of(slow.slow)} is slow, and others that need tasks before it in its query wait for it. It "
        f"cannot be cut out: {slow.why_not}.",
        "Pause or remove the dataflow with the slow task, or submit it fresh, so that it has queries of its own.",
        slot=fragment.slot, since_ms=round(slow.since.timestamp() * 1000), dataflows=view.users(fragment.active_tasks))


def paused_by_weir(record: DataflowRecord, options: Mapping[str, Any]) -> dict[str, Any]:
    """The pause of a dataflow by Weir, by its team's choice or because a task of it can only fail again; nothing where
    it is not so. ``options`` are those of its newest plan, where that is a pause of Weir's own."""
    if record.status not in {PAUSING, PAUSED} or not options.get("why"):
        return {}
    user = {"id": str(record.pk), "name": record.name, "team": record.team.name}
    state, remedy = (PAUSED_FAILED, _MEND) if options.get("failed") else (PAUSED_SLOW, _KEEP_UP)
    finding = Finding(
        "dataflow", record.name, state, WARN, f"Weir paused {record.name}. {options['why']}", remedy, dataflows=[user])
    return {finding.key: finding}
