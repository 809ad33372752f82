"""Events of the streams of policies while dataflows run: figures of tasks and dataflows, events of outputs, and events
that teams post."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from operator import itemgetter
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.operations.estate_store.readable import is_told_to_all
from dashboard.operations.models import EventStream, PostedEvent
from dashboard.teams.models import TeamCalendar
from scheduler.guards.element_policies import ElementPolicy
from scheduler.guards.figure_streams import (
    OF_DATAFLOW,
    OF_EVENTS,
    OF_OUTPUT,
    DataflowSubject,
    FigureSubject,
    figures_in,
)
from scheduler.guards.guard_values import GuardCatalog, GuardEvent
from scheduler.guards.task_figures import TASK_CATALOG, TaskSubject, subject_of
from scheduler.model.estate import Estate

Came = tuple[list[int], int, Mapping[str, Any]]  # where it is in its stream, its time in ms, its values
NEWEST = 50  # events of an output that are looked at in a second
GONE = TaskSubject("", "", "")  # nothing of it is measured


def catalog_of(policy: ElementPolicy, days: Mapping[str, frozenset[date]] | None = None) -> GuardCatalog:
    """The names that the guards of a policy that was approved may use; ``days`` are its team's calendars, by default as
    they are now."""
    named = {name: figures_in(stream) for name, stream in policy.streams.items()}
    calendars = calendars_of(policy.calendars) if days is None else days
    return GuardCatalog({**TASK_CATALOG.streams, **named}, calendars)


def calendars_of(team: str) -> dict[str, frozenset[date]]:
    """A team's calendars, by name."""
    rows = TeamCalendar.objects.filter(team__slug=team).values_list("name", "days") if team else ()
    return {name: frozenset(map(date.fromisoformat, days)) for name, days in rows}


def subject_in(estate: Estate, stream: Mapping[str, Any]) -> FigureSubject:
    """The subject of a stream's figures, in the estate as it is now."""
    entry = estate.submitted.get(stream["dataflow"])
    if stream["of"] == OF_DATAFLOW:
        queries = {estate.places[task][0] for task in entry.running.values()} if entry is not None else set()
        slots = {bundle.slot for query in queries for bundle in estate.fragments[query].queries}
        return DataflowSubject(stream["dataflow"], tuple(sorted(slots)), settings.CORE_HOUR_PRICE)
    running = entry.running.get(stream["task"]) if entry is not None else None
    return subject_of(estate, running) if running is not None else GONE


def read_events(
    estate: Estate, streams: Mapping[str, Mapping[str, Any]], positions: dict[str, list[int]], now_ms: int, *,
    look: Callable[[], None] = lambda: None,
) -> list[GuardEvent]:
    """The events since ``positions`` of outputs and posted events, in order of time; moves positions on.

    A stream without a position begins with its newest event: windows begin empty, figures do not. Times are bounded by
    the clock: an event from the future counts as of now. If the broker is away, its events are read later. ``look`` is
    called for each event, and an exception of it ends the reading.
    """
    came: list[GuardEvent] = []
    for name, stream in streams.items():
        read = {OF_EVENTS: _posted, OF_OUTPUT: _leaving}.get(stream["of"])
        if read is None:
            continue
        rows = read(estate, stream, positions.get(name))
        for position, at_ms, values in rows:
            look()
            positions[name] = position
            came.append(GuardEvent(min(at_ms, now_ms), name, {
                figure: values.get(figure) for figure in stream["figures"] if figure in values}))
        positions.setdefault(name, [0])
    return sorted(came, key=lambda event: event.at_ms)


def events_between(
    estate: Estate, streams: Mapping[str, Mapping[str, Any]], begin_ms: int, end_ms: int, *,
    look: Callable[[], None] = lambda: None,
) -> list[GuardEvent]:
    """The events of outputs and posted events in a time, as far as it is kept: of outputs, what they hold still."""
    before = {name: [0, 0] for name in streams}
    return [event for event in read_events(estate, streams, before, end_ms, look=look) if event.at_ms >= begin_ms]


def _posted(estate: Estate, stream: Mapping[str, Any], after: list[int] | None) -> Iterator[Came]:
    rows = PostedEvent.objects.filter(stream__team__slug=stream["team"], stream__name=stream["name"]).order_by("id")
    for row in rows.filter(id__gt=after[0]).iterator() if after is not None else rows.reverse()[:1]:
        yield [row.pk], row.at_ms, row.values


def _leaving(estate: Estate, stream: Mapping[str, Any], after: list[int] | None) -> Iterator[Came]:
    """The newest events of an output that are not read yet: one that is older than what was read stays unread."""
    entry = estate.submitted.get(stream["dataflow"])
    running = entry.running.get(stream["task"]) if entry is not None else None
    if running is None or not is_told_to_all(estate, running):  # a version since may read with a credential
        return
    fragment = estate.fragments[estate.places[running][0]]
    tapped = jobs.Tapped(
        running, [bundle.id for bundle in fragment.queries], retained_in=fragment.channels_of(running))
    try:
        newest = jobs.newest_events(tapped, count=NEWEST if after is not None else 1).events
    except jobs.BrokerAway:
        return
    places = sorted((
        ([int(event.get("_born") or 0), int(event.get("_seq") or 0)], event) for event in newest), key=itemgetter(0))
    yield from ((position, position[0], event) for position, event in places if after is None or position > after)


def event_figures(team: str) -> dict[str, dict[str, str]]:
    """The streams that a team posts events to, each with its figures and their kinds."""
    return dict(EventStream.objects.filter(team__slug=team).values_list("name", "figures"))


