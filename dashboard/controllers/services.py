"""Commands on controllers: what a team lets one do, and answers to what it recommends that is no plan."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict

from django.db.models import QuerySet
from django.utils import timezone

from dashboard.audit.trail import audited
from dashboard.controllers.mode_changing import begin, take_back
from dashboard.controllers.models import ACCEPTED, TAKEN_BACK, TURNED_DOWN, ControllerSettings, RoundRow
from dashboard.controllers.selectors import round_for
from dashboard.controllers.stored import policies_of, round_of
from dashboard.operations.modes import CannotChange
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.permissions import may_measure, require_measuring
from dashboard.profiles.services.sweeps import measure_again
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import Viewer, require_role, require_superuser, viewer_of
from scheduler.controllers.protocol import Controller
from scheduler.controllers.registry import CONTROLLERS
from scheduler.controllers.values import DAY_S, MODES, Policy
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied, WeirError

MOST_CHANGES = 1_000


class InvalidPolicy(WeirError):
    """What a controller cannot be let do."""

    code = "invalid_value"


def controller_named(name: str) -> Controller:
    """A controller by its name, or ``NotFound``."""
    controller = CONTROLLERS.get(name)
    if controller is None:
        raise NotFound("There is no such controller.", remedy=f"Choose one of {', '.join(CONTROLLERS)}.")
    return controller


def set_policy(*, actor: User, controller: str, team: Team | None, policy: Policy) -> ControllerSettings | None:
    """Say what a controller may do for a team; by an admin of it, or for what belongs to all by an administrator.

    Rounds in flight go on: what has changed is still held to its promise. One that nothing was done for yet is given up
    where it is turned off.

    Parameters
    ----------
    actor : User
        Who asks, for permission and the audit.
    controller : str
        Its name.
    team : Team, optional
        Whose dataflows; None for what belongs to all.
    policy : Policy
        Mode, budget and cool-down.

    Returns
    -------
    ControllerSettings or None
        None where nothing changes.

    Raises
    ------
    InvalidPolicy
        There is no such mode, or an amount is out of bounds.
    """
    if team is None:
        require_superuser(viewer_of(actor))
    else:
        require_role(viewer_of(actor), team, Role.ADMIN)
    known = controller_named(controller)
    _require_policy(policy)
    with audited(actor=actor, verb="controller.set", team=team) as audit:
        before = policies_of(known)[team.slug if team else ""]
        if before == policy:
            audit.nothing_changed()
            return None
        row, _ = ControllerSettings.objects.update_or_create(
            controller=controller, team=team, defaults=asdict(policy))
        audit.subject = row
        audit.details = {"before": asdict(before), "after": asdict(policy)}
        return row


def set_mode(*, actor: User, controller: str, team: Team | None, mode: str) -> ControllerSettings | None:
    """Say whether a controller is off, recommends or acts for a team, and leave the rest as it is.

    Parameters
    ----------
    actor : User
        Who asks, for permission and the audit.
    controller : str
        Its name.
    team : Team, optional
        Whose dataflows; None for what belongs to all.
    mode : str
        One of `scheduler.controllers.values.MODES`.
    """
    before = policies_of(controller_named(controller))[team.slug if team else ""]
    return set_policy(
        actor=actor, controller=controller, team=team,
        policy=Policy(mode, before.changes_per_hour, before.changes_per_day, before.cool_down_s))


def accept_round(*, actor: User, key: str) -> RoundRow:
    """Let what a round recommends be done, in the actor's name; for what is no plan.

    A change of modes that several teams are asked about is made when each of them has said yes.
    """
    with audited(actor=actor, verb="controller.accept") as audit:
        row = _asked(actor, key)
        row.answered_by = actor
        if row.profile is not None:
            _measure(actor, row)
        else:
            own = {team.slug for team in _asked_teams(viewer_of(actor), row)}
            row.asked_of = [team for team in row.asked_of if team not in own]
            if not row.asked_of:
                row.answer = ACCEPTED
                _change_modes(row)
        row.save(update_fields=["sweep", "answer", "answered_by", "asked", "asked_of"])
        audit.subject, audit.team = row, row.team
        audit.details = {"sweep": str(row.sweep_id)} if row.sweep_id else {"asked": row.asked_of}
        return row


def decline_round(*, actor: User, key: str) -> RoundRow:
    """Turn down what a round recommends; the controller leaves its target in peace for a day."""
    with audited(actor=actor, verb="controller.decline") as audit:
        row = _asked(actor, key)
        row.answer, row.answered_by = TURNED_DOWN, actor
        row.save(update_fields=["answer", "answered_by"])
        audit.subject, audit.team = row, row.team
        return row


def take_back_round(*, actor: User, key: str) -> RoundRow:
    """Take a change of modes back that is in force; the controller leaves its dataflow in peace for a day.

    Parameters
    ----------
    actor : User
        An engineer of the team whose dataflow it is about, or of one that it touches.
    key : str
        The round's.

    Raises
    ------
    NotFound, PermissionDenied
        There is no such round for the actor, or the role is missing.
    InvalidTransition
        It is no change of modes, or not in force.
    """
    with audited(actor=actor, verb="controller.take_back") as audit:
        viewer = viewer_of(actor)
        row = _locked(round_for(viewer, key))
        if not _is_engineer_of(viewer, row):
            raise _not_an_engineer()
        if not row.may_be_taken_back:
            raise InvalidTransition(
                "There is nothing to take back here.", remedy="What a plan has changed goes back with its proposal.")
        if take_back(row) and row.stuck:
            raise InvalidTransition(row.stuck, remedy="See its dataflow's page.")
        row.answer, row.answered_by = TAKEN_BACK, actor
        row.save(update_fields=["answer", "answered_by"])
        audit.subject, audit.team = row, row.team
        return row


def may_answer(viewer: Viewer, row: RoundRow) -> bool:
    """Whether a viewer may say yes or no to a round that waits for that."""
    if not row.waits_for_an_answer:
        return False
    if row.profile is not None:
        return may_measure(viewer, team_id=row.profile.team_id)
    return bool(_asked_teams(viewer, row))


def may_take_back(viewer: Viewer, row: RoundRow) -> bool:
    """Whether a viewer may take the change of a round back, where that is no plan."""
    return row.may_be_taken_back and _is_engineer_of(viewer, row)


def _asked(actor: User, key: str) -> RoundRow:
    viewer = viewer_of(actor)
    row = _locked(round_for(viewer, key))
    if row.profile is not None or not row.asked_of:
        require_measuring(viewer, team_id=row.profile.team_id if row.profile else row.team_id)
    elif not _asked_teams(viewer, row):
        raise _not_an_engineer()
    if not row.waits_for_an_answer:
        raise InvalidTransition("Nobody is asked about this any more.", remedy="Reload the page.")
    return row


def _locked(row: RoundRow) -> RoundRow:
    return RoundRow.objects.select_for_update(of=("self",)).select_related("team", "profile__team").get(pk=row.pk)


def _asked_teams(viewer: Viewer, row: RoundRow) -> list[Team]:
    """The teams that are asked for which a viewer may answer."""
    return [team for team in _teams(row.asked_of) if viewer.has_role(team.pk, Role.ENGINEER)]


def _is_engineer_of(viewer: Viewer, row: RoundRow) -> bool:
    """Whether a viewer is an engineer of a team that a round is about."""
    return viewer.superuser or any(
        viewer.has_role(team.pk, Role.ENGINEER) for team in _teams(round_of(row).decision.teams))


def _teams(slugs: Iterable[str]) -> QuerySet[Team]:
    return Team.objects.filter(slug__in=list(slugs))


def _not_an_engineer() -> PermissionDenied:
    return PermissionDenied(
        "This needs the role engineer in a team that it is about.", remedy="Ask an admin of that team for it.",
        role=Role.ENGINEER.label)


def _measure(actor: User, row: RoundRow) -> None:
    row.sweep = measure_again(actor=actor, profile=row.profile, slot=row.decision["arguments"]["slot"])
    if SweepRecord.objects.filter(pk=row.sweep.pk, round__isnull=False).exists():
        raise InvalidTransition("It is being measured already.", remedy="See its sweep.")
    row.answer, row.asked = ACCEPTED, row.asked or timezone.now()


def _change_modes(row: RoundRow) -> None:
    try:
        begin(row)
    except CannotChange as error:
        raise InvalidTransition(str(error), remedy="Turn it down, or wait: it is withdrawn.") from error


def _require_policy(policy: Policy) -> None:
    if policy.mode not in MODES:
        raise InvalidPolicy(f"{policy.mode[:40]!r} is no choice.", remedy=f"Choose one of {', '.join(MODES)}.")
    if not all(0 <= count <= MOST_CHANGES for count in (policy.changes_per_hour, policy.changes_per_day)):
        raise InvalidPolicy(
            "That is no number of changes.", remedy=f"Give 0 to {MOST_CHANGES:,} changes an hour and a day.")
    if not (math.isfinite(policy.cool_down_s) and 0 <= policy.cool_down_s <= DAY_S):
        raise InvalidPolicy("That is no cool-down.", remedy="Give 0 to 1,440 minutes.")
