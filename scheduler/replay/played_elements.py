"""Dynamic tasks as adaptation finds them in a replay."""

from __future__ import annotations

from scheduler.controllers.evidence.world import AdaptedElement
from scheduler.guards.policy_sources import CONTROLLERS
from scheduler.guards.switched_tasks import SwitchedTask, elements_of
from scheduler.model.estate import Estate


def played_elements(estate: Estate) -> dict[str, AdaptedElement]:
    """Tasks whose policy names controllers: nobody holds them, and alternates without a guard are allowed."""
    return {task: _element(element) for task, element in elements_of(estate, CONTROLLERS).items()}


def _element(switched: SwitchedTask) -> AdaptedElement:
    element = switched.policy.element(switched.task, switched.alternates)
    return AdaptedElement(
        switched, frozenset(way.name for way in element.alternates if not way.guard.strip()),
        {way.name: way.value for way in element.alternates if isinstance(way.value, int | float)},
        f"{switched.warming} warms up" if switched.warming else "")
