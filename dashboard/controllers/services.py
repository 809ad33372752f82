"""Commands on controllers: what a team lets one do."""

from __future__ import annotations

import math
from dataclasses import asdict

from dashboard.audit.trail import audited
from dashboard.controllers.models import ControllerSettings
from dashboard.controllers.stored_rounds import policies_of
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, require_superuser, viewer_of
from scheduler.controllers.controller_port import Controller
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import DAY_S, MODES, Policy
from scheduler.model.errors import NotFound, WeirError

MOST_CHANGES = 1_000


class InvalidPolicy(WeirError):
    """A permission that a controller cannot have."""

    code = "invalid_value"


def controller_named(name: str) -> Controller:
    """A controller by its name, or ``NotFound``."""
    controller = CONTROLLERS.get(name)
    if controller is None:
        raise NotFound("There is no such controller.", remedy=f"Choose one of {', '.join(CONTROLLERS)}.")
    return controller


def policy_of(*, mode: str, changes_per_hour: int, changes_per_day: int, cool_down_s: float) -> Policy:
    """A policy of what somebody gave; ``InvalidPolicy`` where its cool-down is no number of seconds.

    Parameters
    ----------
    mode : str
        One of ``MODES``.
    """
    if not math.isfinite(cool_down_s):
        raise InvalidPolicy("That is no cool-down.", remedy="Give 0 to 1,440 minutes.")
    return Policy(mode, changes_per_hour, changes_per_day, cool_down_s)


def set_policy(*, actor: User, controller: str, team: Team | None, policy: Policy) -> ControllerSettings | None:
    """Say what a controller may do for a team; by an admin of it, or for what belongs to all by an administrator.

    Rounds in flight go on: what has changed is still held to its promise. One that nothing was done for yet is given up
    where it is turned off.

    Parameters
    ----------
    team : Team, optional
        The team of the dataflows; None for what belongs to all.
    """
    if team is None:
        require_superuser(viewer_of(actor))
    else:
        require_role(viewer_of(actor), team, Role.ADMIN)
    named = controller_named(controller)
    _require_policy(policy)
    with audited(actor=actor, verb="controller.set", team=team) as audit:
        before = policies_of(named)[team.slug if team else ""]
        if before == policy:
            audit.nothing_changed()
            return None
        row, _ = ControllerSettings.objects.update_or_create(
            controller=controller, team=team, defaults=asdict(policy))
        audit.subject = row
        audit.details = {"before": asdict(before), "after": asdict(policy)}
        return row


def set_mode(*, actor: User, controller: str, team: Team | None, mode: str) -> ControllerSettings | None:
    """Say whether a controller is off, recommends or acts for a team, and leave the rest as it is."""
    before = policies_of(controller_named(controller))[team.slug if team else ""]
    return set_policy(
        actor=actor, controller=controller, team=team,
        policy=Policy(mode, before.changes_per_hour, before.changes_per_day, before.cool_down_s))


def _require_policy(policy: Policy) -> None:
    if policy.mode not in MODES:
        raise InvalidPolicy(f"{policy.mode[:40]!r} is no choice.", remedy=f"Choose one of {', '.join(MODES)}.")
    if not all(0 <= count <= MOST_CHANGES for count in (policy.changes_per_hour, policy.changes_per_day)):
        raise InvalidPolicy(
            "That is no number of changes.", remedy=f"Give 0 to {MOST_CHANGES:,} changes an hour and a day.")
    if not 0 <= policy.cool_down_s <= DAY_S:
        raise InvalidPolicy("That is no cool-down.", remedy="Give 0 to 1,440 minutes.")
