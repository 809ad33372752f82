"""Choosing what becomes of slow readers of streams that others need: for a dataflow, and for all of a team.

Nodes are told of it in their desired state, so each choice is a revision of the estate. It is no plan, but may pause a
dataflow or lose its events: so a team's freeze holds for it, and only what loses nothing is chosen in one.
"""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.approval_rules import current_rules
from dashboard.approvals.demands import TeamIsFrozen, moment_of, ms_of
from dashboard.audit.trail import audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.generation import lock_generation, revise
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.behind import CHOICES, SPILL


def choose_when_behind(*, actor: User, dataflow_id: UUID | str, choice: str) -> DataflowRecord:
    """Say what becomes of a dataflow that reads a stream too slowly that others need; by an approver of its team.

    Parameters
    ----------
    choice : str
        Of `scheduler.model.behind`; empty for what its team has for all.

    Raises
    ------
    TeamIsFrozen
        In a freeze of its team, for a choice that may pause the dataflow or lose events.
    """
    require_role(viewer_of(actor), dataflow_for(viewer_of(actor), dataflow_id).team, Role.APPROVER)  # before the lock
    if choice and choice not in CHOICES:
        raise InvalidValue(
            f"{choice[:40]!r} is no choice.", remedy=f"Choose one of {', '.join(CHOICES)}, or none for the team's.")
    with audited(actor=actor, verb="dataflow.choose_when_behind") as audit:
        lock_generation()
        record = dataflow_for(audit.viewer, dataflow_id)
        require_role(audit.viewer, record.team, Role.APPROVER)
        audit.subject, audit.team = record, record.team
        before = record.when_behind
        if (choice or record.team.when_behind) != record.behind_choice:
            _require_open(record.team, choice or record.team.when_behind)
        if audit.choose(record, "when_behind", choice):
            audit.details = {"before": before or "team", "after": choice or "team"}
            revise()
            jobs.republish()
        return record


def set_when_behind(*, actor: User, team: Team, choice: str) -> Team:
    """Say what becomes of the team's dataflows that read a stream too slowly that others need, where these choose
    nothing themselves; by an admin of the team.

    Raises
    ------
    TeamIsFrozen
        In a freeze of the team, for a choice that may pause its dataflows.
    """
    require_role(viewer_of(actor), team, Role.ADMIN)
    choices = [name for name, _ in Team._meta.get_field("when_behind").choices]
    if choice not in choices:
        raise InvalidValue(
            f"{choice[:40]!r} is no choice for all of a team's dataflows.",
            remedy=f"Choose one of {', '.join(choices)}.")
    with audited(actor=actor, verb="team.set_when_behind", subject=team, team=team) as audit:
        lock_generation()
        require_role(audit.viewer, team, Role.ADMIN)
        team.refresh_from_db(fields=["when_behind"])  # somebody else may have chosen meanwhile
        if choice != team.when_behind:
            _require_open(team, choice)
        if audit.choose(team, "when_behind", choice):
            revise()
            jobs.republish()
        return team


def _require_open(team: Team, choice: str) -> None:
    """Refuse a choice that may pause dataflows or lose events, while a freeze of the team holds.

    Under the estate's lock, as freezes are made.
    """
    _, rules = current_rules([team.pk])[team.pk]
    freeze = rules.frozen(ms_of(timezone.now()))
    if choice == SPILL or freeze is None:
        return
    reason_text = f" ({freeze.reason})" if freeze.reason else ""
    raise TeamIsFrozen(
        f"A freeze of {team.name}{reason_text} holds until {moment_of(freeze.until_ms):%Y-%m-%d %H:%M} UTC: until then "
        "nothing may newly pause its dataflows, or lose their events.",
        remedy=f"Choose '{SPILL}', wait for its end, or let an approver end it in the team's rules.")
