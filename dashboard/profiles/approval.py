"""Approval of measurements with outside effects: as a task of a dataflow that is in the estate. An expression that is
not in the estate so is measured for approvers alone: a sweep runs it on a slot without a review.

A sweep feeds a task other rates than its reviewers saw, but never another config or other events: the task and all that
feeds it have to be in the estate for that dataflow, as they are measured. They are looked up when a sweep is asked for
or resumed, before each trial, and while it is under way; the node refuses a trial that was ordered without.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.models import Use
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.targets import SweepTarget
from dashboard.teams.models import Role
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.model.alternates import alternates_in
from scheduler.model.canonical import canonical_json
from scheduler.model.effects import effects_in_words, needs_approval
from scheduler.model.errors import PermissionDenied, WeirError
from scheduler.model.task_types import TaskType

_TypeAndConfig = tuple[str, Mapping[str, Any]]


class NotApproved(WeirError):
    """The target of a measurement has outside effects or an expression, and nobody has approved it."""

    code = "not_approved"


def require_approved(target: SweepTarget, viewer: Viewer | None) -> None:
    """Raise ``NotApproved`` where a target cannot be measured, as `hindrance_of` has it."""
    if (hindrance := hindrance_of(target, viewer)) is not None:
        raise hindrance


def require_effects_of(viewer: Viewer, target: SweepTarget) -> None:
    """Raise ``PermissionDenied`` where a sweep has outside effects in the name of a team that the viewer is no engineer
    of: whoever listens there gets its events."""
    if next(_reaching(target), None) is None or target.dataflow_id is None:
        return
    team = DataflowRecord.objects.select_related("team").get(pk=target.dataflow_id).team
    if not viewer.has_role(team.pk, Role.ENGINEER):
        raise PermissionDenied(
            f"This is measured with effects outside of Weir, in the name of team {team.name}.",
            remedy="Let an engineer of that team measure it.", role=Role.ENGINEER.label, team=team.slug)


def hindrance_of(target: SweepTarget, viewer: Viewer | None) -> NotApproved | None:
    """The reason why a target cannot be measured, as far as approval goes; None where it can."""
    reaching = next(_reaching(target), None)
    written = None if viewer is None else next(_expressions(target), None)
    if written is not None and _may_approve(viewer, target):
        written = None
    if (reaching is None and written is None) or _is_in_estate(target):
        return None
    remedy = "Measure it as a task of a dataflow that was approved and runs, or import its profile"
    if reaching is None:
        return NotApproved(
            f"{written} computes an expression that reviewers have not approved.",
            remedy=f"{remedy}; or let an approver measure it.", task_type=written)
    name, effects = reaching
    return NotApproved(f"{name} reaches {effects}, and runs only as reviewers have approved it.", remedy=f"{remedy}.",
                       task_type=name)


def author_of(sweep: SweepRecord) -> Viewer | None:
    """The author of a sweep, with present permissions; None where Weir did."""
    return None if sweep.author is None else viewer_of(sweep.author)


def needs_a_dataflow(declared: TaskType, viewer: Viewer) -> NotApproved | None:
    """The reason why a viewer cannot measure a type with a config of one's own; None where they can."""
    return hindrance_of(SweepTarget(declared.name, {}, declared.version, declared.stateful, (), ""), viewer)


def is_approved(sweep: SweepRecord) -> bool:
    """True if all of a sweep is in the estate as it would run now."""
    return _is_in_estate(target_of(sweep))


def target_of(sweep: SweepRecord) -> SweepTarget:
    """The target of a sweep."""
    return SweepTarget(
        sweep.task_type, json.loads(sweep.config), sweep.version, False, tuple(sweep.feed), sweep.fed_by,
        sweep.team_id, sweep.dataflow_id, tuple(sweep.tasks))


def _reaching(target: SweepTarget) -> Iterator[tuple[str, str]]:
    """The types with outside effects that would run, and what they reach."""
    for name, config in _with_alternates(_chain(target)):
        declared = jobs.task_types().get(name)
        if needs_approval(declared, config):
            yield name, effects_in_words(declared)


def _expressions(target: SweepTarget) -> Iterator[str]:
    """The types that would run whose configs hold expressions; feeds of a type by itself are the library's own."""
    written = _chain(target) if target.tasks else [(target.task_type, target.config)]
    for name, _ in _with_alternates(written):
        declared = jobs.task_types().get(name)
        if declared is not None and declared.has_expressions:
            yield name


def _may_approve(viewer: Viewer, target: SweepTarget) -> bool:
    """True if a viewer may approve what runs for the target's team, or for any where it is of no dataflow."""
    if target.dataflow_id is None:
        return viewer.has_role_anywhere(Role.APPROVER)
    team_id = DataflowRecord.objects.values_list("team_id", flat=True).filter(pk=target.dataflow_id).first()
    return team_id is not None and viewer.has_role(team_id, Role.APPROVER)


def _chain(target: SweepTarget) -> Iterator[_TypeAndConfig]:
    for task in target.feed:
        yield task["type"], task["config"]
    yield target.task_type, target.config


def _with_alternates(tasks: Iterable[_TypeAndConfig]) -> Iterator[_TypeAndConfig]:
    """These types and configs, and those of the alternates that dynamic tasks are done by."""
    for name, config in tasks:
        yield name, config
        for alternate in alternates_in(name, config) if config else ():  # of a type alone nobody knows them
            yield from ((step.type, step.config) for step in alternate.tasks)


def _is_in_estate(target: SweepTarget) -> bool:
    if target.dataflow_id is None or len(target.tasks) != len(target.feed) + 1:
        return False
    uses = Use.objects.filter(dataflow_id=target.dataflow_id, task_id__in=target.tasks)
    rows = {
        use.task_id: (use.running_task.type, canonical_json(use.running_task.config))
        for use in uses.select_related("running_task")}
    return all(
        rows.get(task_id) == (name, canonical_json(config))
        for task_id, (name, config) in zip(target.tasks, _chain(target), strict=True))
