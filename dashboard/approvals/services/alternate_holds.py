"""Holding an alternate: what somebody has set by hand stays on for a stated time, or until it is released."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.audit.trail import Audit, audited
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.models import AlternateHold, KeyHold
from dashboard.operations.policies.policy_reader import running_element
from dashboard.plans.selectors import plan_of
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.errors import NotFound
from scheduler.model.warm_up import warm_s, warming_of

HELD_FOR = timedelta(hours=1)  # where nothing else is said
LEAST_HOLD, LONGEST_HOLD = timedelta(minutes=1), timedelta(days=31)


def require_hold(hold_s: float | None) -> None:
    """Raise ``InvalidValue`` unless an alternate may be held for so many seconds."""
    if hold_s is not None and not LEAST_HOLD.total_seconds() <= hold_s <= LONGEST_HOLD.total_seconds():
        raise InvalidValue(f"An alternate cannot be held for {hold_s:g} s.",
                           remedy="Hold it for a minute at least, and 31 days at most; then policies decide again.")


def held_for(proposal: Proposal) -> timedelta | None:
    """Duration for which a proposal holds what it switches; None where nobody switches by hand. Weir holds nothing."""
    options = proposal.plan.options
    if proposal.author_id is None or "alternate" not in options:
        return None
    return timedelta(seconds=options["hold_s"]) if options.get("hold_s") else HELD_FOR


def hold_switched(audit: Audit, proposal: Proposal, *, at: datetime) -> None:
    """Hold what somebody has switched by hand, from a moment on, and while it warms up before; in the caller's command.
    What Weir switches, nobody holds."""
    hold_duration = held_for(proposal)
    if hold_duration is None:
        return
    plan, tasks = plan_of(proposal.plan), stored_estate().tasks
    for step in plan.steps:
        if step.of_key is not None:
            until = at + hold_duration
            KeyHold.objects.filter(until__lte=at).delete()
            KeyHold.objects.update_or_create(task=step.task, key=step.of_key, defaults={
                "alternate": step.alternate, "until": until, "by": proposal.author})
            audit.details["held_until"] = until.isoformat()
        elif step.task:
            at_work = plan.settings_after[step.fragment].alternates[step.task]
            warms_s = warm_s(tasks[step.task].type, tasks[step.task].config) if warming_of(at_work) else 0
            until = at + hold_duration + timedelta(seconds=warms_s)
            AlternateHold.objects.update_or_create(pk=step.task, defaults={
                "alternate": warming_of(at_work) or at_work, "until": until, "by": proposal.author})
            audit.details["held_until"] = until.isoformat()


def end_hold(audit: Audit, proposal: Proposal) -> None:
    """Hold no longer what is taken back; in the caller's command."""
    if "alternate" not in proposal.plan.options:
        return
    steps = [step for step in plan_of(proposal.plan).steps if step.task]
    if of_key := proposal.plan.options.get("of_key"):
        holds = KeyHold.objects.filter(task__in=[step.task for step in steps], key=of_key)
    else:
        holds = AlternateHold.objects.filter(pk__in=[step.task for step in steps])
    audit.details["released"] = holds.delete()[0]


def release_alternate(*, actor: User, dataflow_id: UUID | str, task: str) -> None:
    """Let the policy of a dynamic task decide again; by an engineer of the team of a dataflow that uses it.

    Raises
    ------
    NotFound
        There is no such task, or nobody holds it.
    """
    viewer = viewer_of(actor)
    element = running_element(viewer, dataflow_id, task)
    require_role(viewer, element.record.team, Role.ENGINEER)
    with audited(actor=actor, verb="dataflow.release_alternate", subject=element.record,
                 team=element.record.team) as audit:
        hold = AlternateHold.objects.select_for_update().filter(
            pk=element.running.id, until__gt=timezone.now()).first()
        if hold is None:
            raise NotFound(f"Nobody holds {task}.", remedy="Its policy decides already.", task=task)
        hold.delete()
        audit.details = {"task": task, "alternate": hold.alternate, "until": hold.until.isoformat()}
