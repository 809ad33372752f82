"""The policy source ``rules``: the guards of dynamic tasks, evaluated once a second; and what is kept of them.

Where a policy names controllers, its guards say what these may choose among: they are evaluated alike, and switch only
where what is on is not allowed any more.

One process does so at a time (`dashboard.tasks.recording`). What it needs to go on is stored every few seconds, so that
another one goes on after it is killed: windows keep what they have seen but for the last seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from django.db import Error as DatabaseError
from django.utils import timezone

from dashboard.core.database import writing
from dashboard.operations.models import GuardState
from dashboard.operations.policies.policy_streams import calendars_of, catalog_of, read_events, subject_in
from dashboard.operations.policies.task_failures import TaskFailures
from dashboard.operations.policies.team_turns import TeamTurns
from scheduler.guards.element_watch import ElementWatch, state_with
from scheduler.guards.figure_streams import MEASURED
from scheduler.guards.guard_compiling import CompiledElement, compile_element
from scheduler.guards.guard_values import GuardEvent
from scheduler.guards.policy_sources import CONTROLLERS, RULES, WantedSwitch
from scheduler.guards.switched_tasks import SwitchedTask, elements_of
from scheduler.guards.task_figures import KeptFigures, TaskSubject, is_known, subject_of
from scheduler.history.series import Series
from scheduler.model.estate import Estate

Days = Mapping[str, frozenset[date]]  # calendars by name


class _WatchedElement:
    """One element while its guards are evaluated, and what its streams have brought so far."""

    def __init__(self, element: SwitchedTask, days: Days) -> None:
        self.element, self.days = element, days
        self.compiled: CompiledElement = compile_element(
            element.policy.element(element.task, element.alternates), catalog_of(element.policy, days))
        self.kept_figures: dict[str, KeptFigures] = {}
        self.positions: dict[str, list[int]] = {}
        self.watch: ElementWatch | None = None
        self.because = self.advice = ""

    def events(
        self, estate: Estate, subject: TaskSubject, values: Mapping[Series, float], now_ms: int
    ) -> list[GuardEvent]:
        """The measured events of its streams at a moment, the task's own figures last."""
        events = []
        for name, stream in self.element.policy.streams.items():
            if stream["of"] in MEASURED:
                events.append(self._measured(name, subject_in(estate, stream).figures(values), now_ms))
        return [*events, self._measured("", subject.figures(values), now_ms)]

    def _measured(self, name: str, figures: Mapping[str, Any], now_ms: int) -> GuardEvent:
        return GuardEvent(now_ms, name, self.kept_figures.setdefault(name, KeptFigures()).take(now_ms, figures))

    def begin(self, state: Mapping[str, Any] | None, event: GuardEvent) -> None:
        """Evaluate its guards from now on, with what an earlier process or policy has seen."""
        state = state or state_with(self.element.on, event)
        self.positions = {
            name: position for name, position in state.get("positions", {}).items()
            if name in self.element.policy.streams}
        self.watch = ElementWatch(self.compiled, event.at_ms, state=state)
        for change in self.watch.begun:
            self.because = change.because

    def take(self, events: list[GuardEvent], now_ms: int) -> None:
        """Take in what has become known."""
        if self.watch is None:
            return
        for event in events:
            for change in self.watch.take(event, now_ms):
                self.because, self.advice = change.because, change.advice

    def row(self) -> GuardState | None:
        """The stored and shown state."""
        if self.watch is None or self.watch.choice is None:
            return None
        return GuardState(
            task=self.element.task, state=self.watch.state() | {"positions": self.positions},
            readings=self.watch.readings(), because=self.because or self.watch.choice.why,
            trouble=self.watch.choice.trouble, verdicts=self.watch.verdicts(), advice=self.advice, at=timezone.now())


class GuardWatches:
    """Evaluates guards at each ``look``; what is there of an earlier process is taken up."""

    def __init__(self) -> None:
        self._watched: dict[str, _WatchedElement] = {}
        self._failures = TaskFailures("guard_not_read")  # by the policy and calendars with which they fail
        self._stored: dict[str, Mapping[str, Any]] | None = None
        self._turns = TeamTurns()

    @property
    def are_there(self) -> bool:
        """True if the guards of any element are evaluated."""
        return bool(self._watched)

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> list[WantedSwitch]:
        """Take in the values of a second; what guards want to be otherwise than it is set."""
        if self._stored is None:
            self._stored = dict(GuardState.objects.values_list("task", "state"))
        elements = elements_of(estate, RULES) | elements_of(estate, CONTROLLERS)
        self._failures.keep(elements)
        for gone in self._watched.keys() - elements.keys():
            del self._watched[gone]
        wanted_switches = []
        for task in self._turns.of(estate, elements):
            element = elements[task]
            days = calendars_of(element.policy.calendars)
            if self._failures.waits(task, (element.policy, days), now_s):
                continue
            try:
                wanted_switches += self._look(estate, element, days, values, now_s * 1000)
                self._failures.over(task)
            except DatabaseError:  # of all: the next second tries again
                raise
            except Exception as error:  # of this task alone: a calendar is gone, or what came is no event
                self._failures.note(task, error, now_s, (element.policy, days))
                self._watched.pop(task, None)
        return wanted_switches

    def _look(
        self, estate: Estate, element: SwitchedTask, days: Days, values: Mapping[Series, float], now_ms: int
    ) -> Iterator[WantedSwitch]:
        subject = subject_of(estate, element.task)
        if all(value is None for value in subject.figures(values).values()):
            return  # nothing is measured: it does not run, or has just begun to
        watched = self._watching(element, days)
        events = watched.events(estate, subject, values, now_ms)
        if watched.watch is None:
            state = (self._stored or {}).get(element.task)
            if state is None and not all(is_known(watched.compiled, event) for event in events):
                return
            watched.begin(state, events[-1])
        came = read_events(estate, element.policy.streams, watched.positions, now_ms)
        watched.take([*came, *events], now_ms)
        choice = watched.watch.choice if watched.watch is not None else None
        is_chosen_by_controllers = element.policy.source == CONTROLLERS
        stays = is_chosen_by_controllers and choice is not None and element.on in choice.allowed
        if choice is None or choice.trouble or stays:
            return
        if choice.alternate != (element.warming or element.on):
            because = f"{element.on} is not allowed any more: {choice.why}" if is_chosen_by_controllers else (
                watched.because or choice.why)
            yield WantedSwitch(element.task, choice.alternate, because, element.policy.source)

    def store(self) -> None:
        """Keep what the next process needs to go on, and what pages show."""
        if not self._watched and self._stored == {}:
            return
        rows = [row for watched in self._watched.values() if (row := watched.row()) is not None]
        with writing():
            GuardState.objects.exclude(task__in=[row.task for row in rows]).delete()
            GuardState.objects.bulk_create(
                rows, update_conflicts=True, unique_fields=["task"],
                update_fields=["state", "readings", "because", "trouble", "verdicts", "advice", "at"])
        self._stored = {row.task: row.state for row in rows}

    def _watching(self, element: SwitchedTask, days: Days) -> _WatchedElement:
        """The watch of an element by the policy that is in force."""
        watched = self._watched.get(element.task)
        if watched is not None and (watched.element.policy, watched.days) == (element.policy, days):
            watched.element = element
            return watched
        made = _WatchedElement(element, days)
        if watched is not None and watched.watch is not None:  # another policy keeps what it has in common
            before = watched.watch
            made.kept_figures = watched.kept_figures
            made.watch = ElementWatch(made.compiled, before.at_ms, state=before.state())
            made.positions = {
                name: position for name, position in watched.positions.items() if name in element.policy.streams}
            for change in made.watch.begun:
                made.because = change.because
        self._watched[element.task] = made
        return made
