"""Dynamic tasks whose policy names controllers: allowed alternates, their worth, and holds."""

from __future__ import annotations

from datetime import datetime

from dashboard.operations.models import AlternateHold, GuardState
from scheduler.controllers.evidence.world import AdaptedElement
from scheduler.guards.policy_sources import CONTROLLERS
from scheduler.guards.switched_tasks import SwitchedTask, elements_of
from scheduler.model.alternates import BY
from scheduler.model.estate import Estate


def adapted_elements(estate: Estate, *, at: datetime) -> dict[str, AdaptedElement]:
    """The adapted elements by running task, as guards were last evaluated."""
    elements = elements_of(estate, CONTROLLERS)
    if not elements:
        return {}
    guard_states = {state.task: state for state in GuardState.objects.filter(pk__in=list(elements))}
    holds = AlternateHold.objects.filter(pk__in=list(elements), until__gt=at).select_related("by")
    hold_reasons = {hold.pk: f"{hold.by.username} holds it until {hold.until:%Y-%m-%d %H:%M}" for hold in holds}
    return {
        task: _element(
            element, guard_states.get(task), hold_reasons.get(task, "") or (
                "its alternates are chosen by key" if estate.tasks[task].config.get(BY) else
                f"{element.warming} warms up" if element.warming else ""))
        for task, element in elements.items()}


def _element(element: SwitchedTask, guard_state: GuardState | None, why_not: str) -> AdaptedElement:
    verdicts = {} if guard_state is None else guard_state.verdicts
    allowed, worth = set(), {}
    for way in element.policy.element(element.task, element.alternates).alternates:
        verdict = verdicts.get(way.name, {})
        if not way.guard.strip() or verdict.get("guard") is True:
            allowed.add(way.name)
        value = verdict.get("value") if isinstance(way.value, str) else way.value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
            worth[way.name] = float(value)
    return AdaptedElement(element, frozenset(allowed), worth, why_not)
