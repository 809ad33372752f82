"""Events that teams post for their policies: taken in by rights and bounds, kept for a week."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from math import ceil, isfinite

from django.utils import timezone

from dashboard.audit.trail import audited
from dashboard.operations.models import EventStream, PostedEvent
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from dashboard.teams.team_limits import EVENTS, require_room
from scheduler.guards.element_watch import LARGEST
from scheduler.guards.guard_tree import kind_in_words
from scheduler.guards.guard_values import NUMBER, TEXT, TRUTH, FigureValue

KEPT, AN_HOUR, OLDEST = timedelta(days=7), timedelta(hours=1), timedelta(hours=1)
MOST_STREAMS, MOST_FIGURES, LONGEST_TEXT = 50, 32, 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")


def post_event(
    *, actor: User, team: Team, stream: str, values: Mapping[str, FigureValue], at_ms: int | None = None
) -> PostedEvent:
    """Take in an event of a stream of a team: what its guards name as ``events.stream.field`` from now on.

    The first event of a stream makes it; a field keeps the kind (number, text, truth) that it had first. What a later
    event does not name stays as it was; null says that it is not known any more.

    Parameters
    ----------
    actor : User
        At least engineer in the team.
    at_ms : int, optional
        The time of the event, in ms since the epoch: an hour ago at most; a time that is to come counts as now.

    Raises
    ------
    InvalidValue
        A name, value or time cannot be one; the message says which.
    AskedTooOften
        The team has posted as many within the hour as it may.
    """
    require_role(viewer_of(actor), team, Role.ENGINEER)
    kinds = {name: _kind(name, value) for name, value in values.items()}
    if not _NAME.fullmatch(stream):
        raise InvalidValue(f"“{stream[:60]}” is no name of a stream.", remedy=_remedy_of_names())
    now = timezone.now()
    now_ms = round(now.timestamp() * 1000)
    when_ms = min(now_ms if at_ms is None else at_ms, now_ms)
    if when_ms < now_ms - OLDEST.total_seconds() * 1000:
        raise InvalidValue(
            "The event is older than an hour.", remedy="Leave at_ms out, or give a time of the last hour.")
    with audited(actor=actor, verb="events.post", team=team) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # two at once count each other
        _require_rate(team)
        row = EventStream.objects.filter(team=team, name=stream).first() or _new_stream(team, stream)
        row.figures = _agreed(row, kinds)
        row.save()
        event = PostedEvent.objects.create(stream=row, at_ms=when_ms, values=dict(values), posted=now)
        audit.subject, audit.details = row, {"event": event.pk, "values": dict(values)}
        return event


def _kind(name: str, value: FigureValue) -> str | None:
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"“{name[:60]}” is no name of a field.", remedy=_remedy_of_names())
    if value is None:
        return None
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int | float):
        if not isfinite(value) or abs(value) > LARGEST:
            raise InvalidValue(
                f"The field {name} is no finite number within 1e200.", remedy="Write null for what is not known.")
        return NUMBER
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT or "\0" in value:
            raise InvalidValue(f"The field {name} has {len(value):,} characters, or contains NUL.",
                               remedy=f"Write at most {LONGEST_TEXT} characters, without NUL.")
        return TEXT
    raise InvalidValue(f"The field {name} is a list or a mapping.", remedy="Give each value a field of its own.")


def _remedy_of_names() -> str:
    return "Begin with a letter or _, and go on with letters, digits, _ and -: 63 characters at most."


def _require_rate(team: Team) -> None:
    lately = PostedEvent.objects.filter(stream__team=team, posted__gt=timezone.now() - AN_HOUR)
    oldest = lately.order_by("posted").values_list("posted", flat=True).first() or timezone.now()
    require_room(
        EVENTS, owner=team.name, taken=lately.count(),
        retry_after_s=max(1, ceil((oldest + AN_HOUR - timezone.now()).total_seconds())))


def _new_stream(team: Team, name: str) -> EventStream:
    if EventStream.objects.filter(team=team).count() >= MOST_STREAMS:
        raise InvalidValue(f"{team.name} has {MOST_STREAMS} streams of events already.",
                           remedy="Post to one of them; a field tells what an event is about.")
    return EventStream(team=team, name=name)


def _agreed(stream: EventStream, kinds: Mapping[str, str | None]) -> dict[str, str]:
    """The stream's figures with those of one more event."""
    for name, kind in kinds.items():
        before = stream.figures.get(name)
        if kind is not None and before not in (None, kind):
            raise InvalidValue(
                f"The field {name} is {kind_in_words(kind)}, and has been {kind_in_words(before)} in {stream.name}.",
                remedy="Guards rely on that kind: give the value a field of another name.")
    figures = {**stream.figures, **{name: kind for name, kind in kinds.items() if kind is not None}}
    if len(figures) > MOST_FIGURES:
        raise InvalidValue(f"The stream {stream.name} would have {len(figures)} fields.",
                           remedy=f"Use {MOST_FIGURES} at most, or another stream.")
    return figures
