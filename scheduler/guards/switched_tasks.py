"""Running dynamic tasks by the policy source that decides about them."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.alternates import TaskAlternate, alternates_in, guards_kind, is_dynamic, working_in
from ..model.estate import Estate
from ..model.settings_of_fragments import USUAL
from ..model.warm_up import on_of, warming_of
from .element_policies import ElementPolicy, policy_of


@dataclass(frozen=True, slots=True)
class SwitchedTask:
    """A dynamic task that a source decides about: its alternates, the one that is set, its policy, and the alternate
    that warms up."""

    task: str
    alternates: tuple[TaskAlternate, ...]
    on: str
    policy: ElementPolicy
    warming: str = ""


def elements_of(estate: Estate, source: str) -> dict[str, SwitchedTask]:
    """The running dynamic tasks that a policy source decides about."""
    elements = {}
    for task in estate.tasks.values():
        if not is_dynamic(task.type) or task.id not in estate.places:
            continue
        settings = estate.settings.get(estate.places[task.id][0], USUAL)
        alternates = alternates_in(task.type, task.config)
        policy = policy_of(task.id, alternates, settings, guards_kind(task.config))
        if policy.source == source and policy.decides:
            at_work = working_in(task.type, task.config, settings.alternates.get(task.id))
            elements[task.id] = SwitchedTask(task.id, alternates, on_of(at_work), policy, warming_of(at_work))
    return elements
