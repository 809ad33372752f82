"""Searches of running streams: the events that meet a condition, as they come, for some seconds while somebody asks.

Nothing is published, nobody is a reader, and the stream's queries copy a few more events than for a look.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from dashboard import node_calls
from dashboard.audit.trail import audited
from dashboard.explorer.streams import tapped_stream
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.guards.event_conditions import InvalidEventCondition, event_condition
from scheduler.model.errors import NotFound

SECONDS, MOST_SECONDS = 30, 60
EVENTS, MOST_EVENTS = 20, 50
ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StreamSearch:
    """The progress of a search: whether nothing more comes of it, how many events were looked at and how many of them
    met the condition, the newest of these first, and why it can find none (``message``, ``remedy``)."""

    id: str
    task: str
    where: str
    is_over: bool
    looked_at: int
    found: int
    types: dict[str, str | None] = field(default_factory=dict)
    events: Sequence[dict[str, Any]] = ()
    message: str = ""
    remedy: str = ""


def begin_search(
    *, actor: User, task_id: str, where: str, seconds: int = SECONDS, count: int = EVENTS
) -> str:
    """Search a running task's stream for some seconds, in the place of what the actor searched before; the search's id.

    Parameters
    ----------
    where : str
        A condition over the columns (`scheduler.guards.event_conditions`).
    count : int, optional
        The largest number of events that are kept, the newest.

    Raises
    ------
    InvalidEventCondition
        It is no condition over the columns, as far as those are known yet.
    NotFound, PermissionDenied, BrokerAway
        As `dashboard.explorer.streams.stream_events` raises them.
    """
    stream = tapped_stream(viewer_of(actor), task_id)
    if types := node_calls.newest_types(stream):
        event_condition(where, types)
    seconds, count = max(1, min(seconds, MOST_SECONDS)), max(1, min(count, MOST_EVENTS))
    search_id = secrets.token_hex(16)
    with audited(actor=actor, verb="stream.search", subject=RunningTaskRow.objects.get(pk=task_id)) as audit:
        audit.team = _team_of(actor, task_id)
        audit.details |= {"where": where[:500], "seconds": seconds, "events": count}
        node_calls.begin_search(search_id, {
            "task": task_id, "where": where, "count": count, "until_ms": _now_ms() + 1000 * seconds,
        }, owner=str(actor.pk))
    return search_id


def search(viewer: Viewer, search_id: str) -> StreamSearch:
    """The results of a search of the viewer's, with what has come since they last asked."""
    before = _progress(viewer, search_id)
    facts, is_over, problem = before.facts, before.facts["until_ms"] <= _now_ms(), None
    stream = tapped_stream(viewer, facts["task"])  # also once it is over: who lost the right reads nothing of before
    if not is_over:
        try:
            for block in reversed(node_calls.new_blocks(search_id, stream)):  # the oldest first
                is_met = event_condition(facts["where"], block.types)
                node_calls.add_to_search(
                    search_id, block, [event for event in block.events if is_met(event)], keep=facts["count"])
        except InvalidEventCondition as error:  # no event had come when it was begun
            problem, is_over = error, True
    after = _progress(viewer, search_id)
    return StreamSearch(
        search_id, facts["task"], facts["where"], is_over, after.looked_at, after.found, after.types, after.events,
        problem.message if problem else "", problem.remedy if problem else "")


def end_search(viewer: Viewer, search_id: str) -> None:
    """Forget a search of the viewer's; one of somebody else stays as it is."""
    if ID.fullmatch(search_id) and node_calls.search_progress(search_id, owner=str(viewer.user_id)) is not None:
        node_calls.end_search(search_id)


def _team_of(actor: User, task_id: str) -> Team | None:
    """The team of the actor's that uses the stream, where one does: by name the first."""
    teams = Team.objects.filter(pk__in=viewer_of(actor).team_ids, dataflows__uses__running_task_id=task_id)
    return teams.order_by("slug").first()


def _progress(viewer: Viewer, search_id: str) -> node_calls.SearchProgress:
    is_id = ID.fullmatch(search_id)
    progress = node_calls.search_progress(search_id, owner=str(viewer.user_id)) if is_id else None
    if progress is None:
        raise NotFound("There is no such search.", remedy="What it found is kept for two minutes: search again.")
    return progress


def _now_ms() -> int:
    return round(timezone.now().timestamp() * 1000)
