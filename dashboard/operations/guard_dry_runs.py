"""What guards would have done over the history that is kept: those of a running task, or others that are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from uuid import UUID

import numpy as np
from django.utils import timezone

from dashboard.catalog.permissions import dataflow_for
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.guard_watches import subject_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.teams.permissions import Viewer
from scheduler.guards.guard_compiling import CompiledElement, compile_element
from scheduler.guards.guard_dry_run import GuardDryRun, dry_run, recorded_events
from scheduler.guards.guard_values import GuardEvent
from scheduler.guards.task_figures import TASK_CATALOG, TASK_FIGURES, KeptFigures, TaskSubject, element_of, is_known
from scheduler.history.points import Points
from scheduler.history.series import GRAIN_BY_NAME, Series
from scheduler.model.alternates import alternates_in, first_on, is_dynamic
from scheduler.model.errors import NotFound

MOST_HOURS = 24 * 7
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class GuardTrial:
    """What guards would have done: in sentences, and switch by switch; for how long each alternate would be on, ms."""

    task: str
    begin_ms: int
    end_ms: int
    text: str
    advice: str
    switches: tuple[TriedSwitch, ...]
    on_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TriedSwitch:
    """A switch that guards would have made, and why."""

    at_ms: int
    before: str
    alternate: str
    because: str


def trial_of(
    viewer: Viewer, dataflow_id: UUID | str, task: str, *, hours: int = 24, guards: Mapping[str, str] | None = None
) -> GuardTrial:
    """A dry run as pages and the API tell it; raises as `dry_run_of` does."""
    run = dry_run_of(viewer, dataflow_id, task, hours=hours, guards=guards)
    return GuardTrial(
        task, run.begin_ms, run.end_ms, run.text, run.advice, tuple(
            TriedSwitch(each.at_ms, each.before or "", each.choice.alternate, each.because) for each in run.switches),
        run.on_ms)


def dry_run_of(
    viewer: Viewer, dataflow_id: UUID | str, task: str, *, hours: int = 24, guards: Mapping[str, str] | None = None
) -> GuardDryRun:
    """Evaluate the guards of a dynamic task over the last hours.

    Parameters
    ----------
    task : str
        Its id in the dataflow.
    hours : int
        From 1 to a week. The last day is looked at every ten seconds, earlier hours every minute.
    guards : mapping of str to str, optional
        Other guards to try, by alternate.

    Raises
    ------
    NotFound
        The dataflow is not in the estate, or has no such dynamic task, or it no such alternate.
    InvalidGuard
        A guard that is tried is none.
    """
    record = dataflow_for(viewer, dataflow_id)
    estate = view_for(viewer).estate
    entry = estate.submitted.get(str(record.pk))
    running = estate.tasks[entry.running[task]] if entry is not None and task in entry.running else None
    if running is None or not is_dynamic(running.type):
        raise NotFound(f"{record.name} has no task {task} with alternates that runs.",
                       remedy="Name a task of the running dataflow that lists alternates.", task=task)
    alternates = alternates_in(running.type, running.config)
    if unknown := (guards or {}).keys() - {each.name for each in alternates}:
        raise NotFound(f"Task {task} has no alternate {min(unknown)}.", remedy="Name one of "
                       f"{', '.join(each.name for each in alternates)}.", task=task)
    tried = [replace(each, guard=(guards or {}).get(each.name, each.guard)) for each in alternates]
    end_s = int(timezone.now().timestamp())
    begin_s = end_s - min(max(hours, 1), MOST_HOURS) * HOUR_S
    figures = _recorded(subject_of(estate, running.id), begin_s, end_s)
    element = element_of(task, tried)
    events = list(_known(compile_element(element, TASK_CATALOG), recorded_events(figures)))
    return dry_run(
        element, TASK_CATALOG, events, begin_ms=events[0].at_ms if events else end_s * 1000, end_ms=end_s * 1000,
        on=first_on(alternates).name)


def _known(compiled: CompiledElement, events: Iterable[GuardEvent]) -> Iterator[GuardEvent]:
    """From the moment on at which guards begin to be evaluated."""
    remembered, has_begun = KeptFigures(), False
    measured = dropwhile(lambda event: all(value is None for value in event.values.values()), events)
    for event in measured:
        event = replace(event, values=remembered.take(event.at_ms, event.values))
        has_begun = has_begun or is_known(compiled, event)
        if has_begun:
            yield event


def _recorded(subject: TaskSubject, begin_s: int, end_s: int) -> dict[tuple[str, str], Points]:
    series = {figure: subject.series(figure) for figure in TASK_FIGURES}
    grain = GRAIN_BY_NAME["10s" if end_s - begin_s <= GRAIN_BY_NAME["10s"].keep_s else "1m"]
    read = DatabaseHistory().read(
        [line for lines in series.values() for line in lines], grain, begin_s=begin_s, end_s=end_s)
    return {("", figure): points for figure, lines in series.items() if (points := _sum(read, lines)) is not None}


def _sum(history: Mapping[Series, Points], lines: tuple[Series, ...]) -> Points | None:
    known = [history[line] for line in lines if line in history and not np.isnan(history[line].values).all()]
    if not known:
        return None
    values = np.stack([points.values for points in known])
    nowhere = np.isnan(values).all(axis=0)
    return Points(known[0].begin_s, known[0].step_s, np.where(nowhere, np.nan, np.nansum(values, axis=0)))
