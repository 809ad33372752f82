"""Policies as people write them: read, held to what their team may name, and tried over recorded history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from dashboard.operations.policies.guard_dry_runs import GuardTrial, dry_run_of, trial_told
from dashboard.operations.policies.policy_catalogs import catalog_with, streams_for
from dashboard.operations.policies.policy_choosers import CHOOSERS
from dashboard.operations.policies.policy_reader import RunningElement, findings_of, running_element
from dashboard.teams.permissions import Viewer
from scheduler.guards.element_policies import ElementPolicy
from scheduler.guards.guard_checks import NEVER_ON
from scheduler.guards.guard_compiling import compile_element
from scheduler.guards.guard_values import ACTIVATION, InvalidGuard
from scheduler.guards.policy_sources import CONTROLLERS, PEOPLE, RULES
from scheduler.model.columns import nearest
from scheduler.model.errors import NotFound
from scheduler.model.positions import TURNED, TURNING


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A policy as somebody writes it: names in its guards are those of the dataflow that it is written for.

    Parameters
    ----------
    guards, values : mapping
        By alternate; what is left out has no guard, and the value of the document.
    kind : str
        ``value``, ``activation``, or empty for what the document says.
    """

    guards: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, float | str] = field(default_factory=dict)
    kind: str = ""
    source: str = RULES


def policy_for(viewer: Viewer, element: RunningElement, draft: PolicyDraft) -> ElementPolicy:
    """The policy that a draft says, with what its guards name looked up; and checked.

    Raises
    ------
    NotFound
        There is no such alternate or source.
    InvalidGuard
        A guard or value cannot be one, names what the team may not read, or an alternate could never be on.
    """
    names = [alternate.name for alternate in element.alternates]
    for name in [*draft.guards, *draft.values]:
        if name not in names:
            near = nearest(name, names)
            raise NotFound(f"Task {element.task} has no alternate {name}.",
                           remedy=f"Did you mean {near}?" if near else f"Name one of {', '.join(names)}.",
                           task=element.task)
    _require_source(draft.source)
    guards = {name: guard.strip() for name, guard in draft.guards.items() if guard.strip()}
    values = {**{alternate.name: alternate.value for alternate in element.alternates}, **draft.values}
    policy = ElementPolicy(guards, values, draft.kind or element.stated.kind, draft.source)
    if policy.source == CONTROLLERS and policy.kind == ACTIVATION:
        raise InvalidGuard(
            f"Activation guards of {element.task} leave a controller nothing to choose.",
            remedy="Let its guards be of the kind value, or rules be the source.", alternate=names[0])
    texts = [*guards.values(), *(value for value in values.values() if isinstance(value, str))]
    if any(TURNING.search(text) for text in texts):
        raise InvalidGuard(TURNED[0], remedy=TURNED[1], element=element.task)
    # What is approved already may be named as it is: of those who share the task, another may have proposed it.
    streams = {**element.policy.streams, **streams_for(element, texts)}
    catalog = catalog_with(element, streams)
    compiled = compile_element(policy.element(element.task, element.alternates), catalog)
    used = {name: streams[name] for name in sorted(compiled.streams) if name}
    has_days = any(node.word == "days" for node, _ in compiled.words)
    policy = replace(policy, streams=used, calendars=element.record.team.slug if has_days else "")
    for finding in findings_of(element, policy):
        if finding.what == NEVER_ON and finding.is_certain:
            raise InvalidGuard(finding.message, remedy=finding.remedy, alternate=finding.alternates[0])
    return policy


def trial_of(
    viewer: Viewer, dataflow_id: UUID | str, task: str, *, hours: int = 24, draft: PolicyDraft | None = None
) -> GuardTrial:
    """The choices that a policy would have made over the last hours, the one in force where there is no ``draft``;
    raises as `policy_for` and `running_element`."""
    element = running_element(viewer, dataflow_id, task)
    policy = element.policy if draft is None else policy_for(viewer, element, draft)
    return trial_told(dry_run_of(element, policy, hours=hours))


def _require_source(source: str) -> None:
    sources = [*CHOOSERS, PEOPLE, CONTROLLERS]
    if source not in sources:
        raise NotFound(f"There is no policy source {source} here.", remedy=f"Name one of {', '.join(sources)}.")
