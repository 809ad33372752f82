"""The guards of all dynamic tasks, evaluated once a second by what is measured; and what is kept of them.

One process does so at a time (`dashboard.tasks.recording`). What it needs to go on is stored every few seconds, so that
another one goes on after it is killed: windows keep what they have seen but for the last seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.utils import timezone

from dashboard.core.database import writing
from dashboard.operations.models import GuardState
from scheduler.guards.element_watch import ElementWatch, state_with
from scheduler.guards.guard_compiling import CompiledElement, compile_element
from scheduler.guards.guard_values import GuardEvent
from scheduler.guards.task_figures import TASK_CATALOG, KeptFigures, TaskSubject, element_of, is_known
from scheduler.history.series import Series
from scheduler.model.alternates import TaskAlternate, alternates_in, on_in
from scheduler.model.estate import Estate
from scheduler.model.settings_of_fragments import USUAL

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WantedSwitch:
    """The guards of a running task want another alternate than the one that is set, and why."""

    task: str
    alternate: str
    because: str


def subject_of(estate: Estate, task_id: str) -> TaskSubject:
    """What a running task's figures are of."""
    query, _ = estate.places[task_id]
    return TaskSubject(task_id, query, estate.fragments[query].slot, tuple(estate.tasks[task_id].parents))


def alternates_on(estate: Estate) -> dict[str, tuple[tuple[TaskAlternate, ...], str]]:
    """Of each dynamic task that has guards, its alternates and the one that is set."""
    elements = {}
    for task in estate.tasks.values():
        alternates = alternates_in(task.type, task.config)
        if any(each.guard.strip() for each in alternates) and task.id in estate.places:
            settings = estate.settings.get(estate.places[task.id][0], USUAL)
            elements[task.id] = alternates, on_in(task.type, task.config, settings.alternates.get(task.id))
    return elements


class GuardWatches:
    """Evaluates guards at each ``look``; what is there of an earlier process is taken up."""

    def __init__(self) -> None:
        self._watches: dict[str, ElementWatch] = {}
        self._figures: dict[str, KeptFigures] = {}
        self._because: dict[str, str] = {}
        self._broken: set[str] = set()
        self._stored: dict[str, Mapping[str, Any]] | None = None

    @property
    def are_there(self) -> bool:
        """Whether any element has guards that are evaluated."""
        return bool(self._watches)

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> list[WantedSwitch]:
        """Take in the values of a second; what guards want to be otherwise than it is set."""
        if self._stored is None:
            self._stored = dict(GuardState.objects.values_list("task", "state"))
        elements = alternates_on(estate)
        for gone in self._watches.keys() - elements.keys():
            del self._watches[gone], self._figures[gone]
        wanted = []
        for task_id in elements.keys() - self._broken:
            try:
                wanted += self._look(estate, task_id, *elements[task_id], values, now_s * 1000)
            except Exception as error:  # of this task alone, as a document of another version: it is switched by hand
                self._broken.add(task_id)
                log.warning("guard_not_read", task=task_id, error=f"{type(error).__name__}: {error}")
        return wanted

    def _look(
        self, estate: Estate, task_id: str, alternates: Iterable[TaskAlternate], on: str,
        values: Mapping[Series, float], now_ms: int,
    ) -> Iterator[WantedSwitch]:
        figures = subject_of(estate, task_id).figures(values)
        if all(value is None for value in figures.values()):
            return  # nothing is measured: it does not run, or has just begun to
        event = GuardEvent(now_ms, "", self._figures.setdefault(task_id, KeptFigures()).take(now_ms, figures))
        watch = self._watches.get(task_id) or self._begun(task_id, alternates, on, event)
        if watch is None or watch.choice is None:
            return
        for change in watch.take(event, now_ms):
            self._because[task_id] = change.because
        if not watch.choice.trouble and watch.choice.alternate != on:
            yield WantedSwitch(task_id, watch.choice.alternate, self._because.get(task_id, watch.choice.why))

    def store(self) -> None:
        """Keep what the next process needs to go on, and what pages show."""
        if not self._watches and self._stored == {}:
            return
        rows = [
            GuardState(
                task=task_id, state=watch.state(), readings=watch.readings(), because=self._because.get(
                    task_id, watch.choice.why if watch.choice else ""),
                trouble=watch.choice.trouble if watch.choice else "", at=timezone.now())
            for task_id, watch in self._watches.items()]
        with writing():
            GuardState.objects.exclude(task__in=list(self._watches)).delete()
            GuardState.objects.bulk_create(
                rows, update_conflicts=True, unique_fields=["task"],
                update_fields=["state", "readings", "because", "trouble", "at"])
        self._stored = {row.task: row.state for row in rows}

    def _begun(
        self, task_id: str, alternates: Iterable[TaskAlternate], on: str, event: GuardEvent
    ) -> ElementWatch | None:
        compiled: CompiledElement = compile_element(element_of(task_id, alternates), TASK_CATALOG)
        state = (self._stored or {}).get(task_id)
        if state is None and not is_known(compiled, event):
            return None
        watch = self._watches[task_id] = ElementWatch(compiled, event.at_ms, state=state or state_with(on, event))
        for change in watch.begun:
            self._because[task_id] = change.because
        return watch

