"""Versions of policies: a row for each that the estate takes in, in the order in which it does."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from dashboard.audit.trail import inside_command
from dashboard.operations.models import PolicyVersion
from dashboard.teams.models import User
from scheduler.guards.element_policies import policy_in
from scheduler.model.plan import Plan
from scheduler.step_kinds import kind_of


def note_policies(plan: Plan, *, proposal: UUID, author: User | None, at: datetime) -> None:
    """Write the versions that a plan brings into the estate; inside an audited command that holds its lock."""
    if not inside_command():
        raise RuntimeError("policies are changed inside an audited command only")
    for step in plan.steps:
        if kind_of(step).of_policy:
            task = step.task or ""
            newest = PolicyVersion.objects.filter(task=task).order_by("-number").first()
            document = plan.settings_after[step.fragment].policies.get(task)
            PolicyVersion.objects.create(
                task=task, number=newest.number + 1 if newest else 1, proposal=proposal, author=author,
                document=None if document is None else policy_in(document).document(), reason=plan.why, at=at)
