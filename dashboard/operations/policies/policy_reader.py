"""The policy of a dynamic task: what is in force, its versions, who holds the task, and what each guard saw.

For pages, API and commands: ``policy_told(viewer, dataflow_id, task)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.models import AlternateHold, GuardState, KeyHold, PolicyVersion
from dashboard.operations.policies.policy_streams import calendars_of, catalog_of, event_figures
from dashboard.teams.permissions import Viewer
from scheduler.guards.element_policies import ElementPolicy, policy_in, policy_of, stated_policy
from scheduler.guards.guard_checks import GuardFinding, check_element
from scheduler.guards.guard_values import FigureValue, InvalidGuard
from scheduler.model.alternates import TaskAlternate, alternates_in, guards_kind, is_dynamic, on_in
from scheduler.model.errors import NotFound
from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningTask
from scheduler.model.settings_of_fragments import USUAL

NOT_READ = "not_read"


@dataclass(frozen=True, slots=True)
class ToldVersion:
    """A version of a policy; ``author`` is empty where that is not known any more, of version 0 always."""

    number: int
    policy: ElementPolicy
    author: str = ""
    reason: str = ""
    proposal: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ToldGuard:
    """An alternate by its policy: the newest values of its guard and value function.

    ``allowed`` is None if it is unknown, or without a guard; ``worth`` is None if its function gives NULL.
    """

    name: str
    on: bool
    guard: str
    value: float | str
    allowed: FigureValue = None
    worth: FigureValue = None


@dataclass(frozen=True, slots=True)
class ToldPolicy:
    """The policy by which a dynamic task is switched, as pages, API and commands tell it.

    ``versions`` begin with the newest; the last is 0, what the document says. ``findings`` is what is known before
    anything runs. ``readings`` has the value of each figure and word about time; ``trouble`` and ``because`` are of
    `scheduler.guards.alternate_choice`, or say that the policy cannot be read any more (`NOT_READ`); ``advice`` is for
    one that switches too often.
    """

    task: str
    running: str
    number: int
    policy: ElementPolicy
    on: str
    guards: tuple[ToldGuard, ...]
    versions: tuple[ToldVersion, ...]
    findings: tuple[GuardFinding, ...]
    held: str = ""
    held_until_ms: int | None = None
    held_by: str = ""
    readings: Mapping[str, FigureValue] = field(default_factory=dict)
    because: str = ""
    trouble: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class RunningElement:
    """A dynamic task of a dataflow as it runs, and the policy that is in force."""

    record: DataflowRecord
    estate: Estate
    task: str
    running: RunningTask
    alternates: tuple[TaskAlternate, ...]
    stated: ElementPolicy
    policy: ElementPolicy
    on: str


def running_element(viewer: Viewer, dataflow_id: UUID | str, task: str) -> RunningElement:
    """A dynamic task of a dataflow; ``NotFound`` where the dataflow is not in the estate, or has no such task."""
    record = dataflow_for(viewer, dataflow_id)
    estate = view_for(viewer).estate
    entry = estate.submitted.get(str(record.pk))
    running = estate.tasks[entry.running[task]] if entry is not None and task in entry.running else None
    if running is None or not is_dynamic(running.type):
        raise NotFound(f"{record.name} runs no task {task} with alternates.",
                       remedy="Name a task of the running dataflow that lists alternates.", task=task)
    alternates, kind = alternates_in(running.type, running.config), guards_kind(running.config)
    settings = estate.settings.get(estate.places[running.id][0], USUAL)
    return RunningElement(
        record, estate, task, running, alternates, stated_policy(alternates, kind),
        policy_of(running.id, alternates, settings, kind),
        on_in(running.type, running.config, settings.alternates.get(running.id)))


def policy_told(viewer: Viewer, dataflow_id: UUID | str, task: str) -> ToldPolicy:
    """The policy by which a dynamic task of a dataflow is switched; raises as `running_element`."""
    element = running_element(viewer, dataflow_id, task)
    guard_state = GuardState.objects.filter(pk=element.running.id).first() or GuardState(readings={})
    hold = hold_of(element.running.id, at=timezone.now())
    versions, findings = _versions(element), ()
    try:
        findings = findings_of(element, element.policy)
    except InvalidGuard as invalid:  # a calendar that it names is gone, say
        guard_state.trouble, guard_state.because = NOT_READ, invalid.message
    return ToldPolicy(
        task, element.running.id, next((version.number for version in versions if version.policy == element.policy), 0),
        element.policy, element.on, tuple(_guards(element, guard_state.verdicts)), versions, findings,
        hold.alternate if hold else "", _ms(hold.until) if hold else None, hold.by.username if hold else "",
        guard_state.readings, guard_state.because, guard_state.trouble, guard_state.advice)


def findings_of(element: RunningElement, policy: ElementPolicy) -> tuple[GuardFinding, ...]:
    """The findings about a policy before it decides anything; ``InvalidGuard`` where it cannot be read (any more)."""
    return tuple(check_element(policy.element(element.task, element.alternates), catalog_of(policy)))


def _guards(element: RunningElement, verdicts: Mapping[str, Mapping[str, FigureValue]]) -> list[ToldGuard]:
    rows = []
    for way in element.policy.element(element.task, element.alternates).alternates:
        verdict = verdicts.get(way.name, {})
        worth = verdict.get("value") if isinstance(way.value, str) else way.value
        rows.append(ToldGuard(
            way.name, way.name == element.on, way.guard, way.value, verdict.get("guard"), worth))
    return rows


def _versions(element: RunningElement) -> tuple[ToldVersion, ...]:
    rows = PolicyVersion.objects.filter(task=element.running.id).select_related("author")
    return (*(
        ToldVersion(
            row.number, element.stated if row.document is None else policy_in(row.document),
            row.author.username if row.author else "", row.reason, str(row.proposal), _ms(row.at)) for row in rows),
        ToldVersion(0, element.stated))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def hold_of(task: str, *, at: datetime) -> AlternateHold | None:
    """The hold on a running task at a moment; None where its policy decides."""
    return AlternateHold.objects.filter(pk=task, until__gt=at).select_related("by").first()


def held_keys(tasks: Iterable[str], *, at: datetime) -> dict[str, dict[str, str]]:
    """The alternates that people have set for keys of running tasks, by task and text of the key, at a moment."""
    alternates_by_key: dict[str, dict[str, str]] = {}
    rows = KeyHold.objects.filter(task__in=list(tasks), until__gt=at).values_list("task", "key", "alternate")
    for task, key, alternate in rows:
        alternates_by_key.setdefault(task, {})[key] = alternate
    return alternates_by_key


def users_of(estate: Estate, task_id: str) -> list[tuple[str, str]]:
    """The dataflows that use a running task, by id, and its name in each; those that work first."""
    names = [
        (entry.paused, dataflow, name) for dataflow, entry in estate.submitted.items()
        for name, running in entry.running.items() if running == task_id]
    return [(dataflow, name) for _, dataflow, name in sorted(names)]


def known_to(team: str) -> dict[str, Any]:
    """The calendars and posted events that policies of a team may name, for pages and API."""
    return {
        "calendars": {name: sorted(day.isoformat() for day in days) for name, days in calendars_of(team).items()},
        "events": event_figures(team)}
