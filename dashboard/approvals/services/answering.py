"""Answers to what controllers recommend that is no plan (measuring again, other modes of batches, the cut of a chain
that is too much for a core), and taking modes back.

Modes change by restarts, so they wait for plans that are being enacted, as plans that restart queries do.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet
from django.utils import timezone

from dashboard.approvals.services.adapting import cut_chain
from dashboard.approvals.services.enacting import require_calm
from dashboard.audit.trail import audited
from dashboard.controllers.mode_changing import begin, take_back
from dashboard.controllers.models import ACCEPTED, TAKEN_BACK, TURNED_DOWN, RoundRow
from dashboard.controllers.selectors import round_for, rounds
from dashboard.controllers.stored import round_of
from dashboard.operations.generation import lock_generation
from dashboard.operations.modes import CannotChange
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.permissions import may_measure, require_measuring
from dashboard.profiles.services.sweeps import measure_again
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.controllers.chaining import UNDO
from scheduler.controllers.values import ASKED
from scheduler.model.errors import InvalidTransition, PermissionDenied


def accept_round(*, actor: User, key: str) -> RoundRow:
    """Let what a round recommends be done, in the actor's name; for what is no plan.

    A change of modes, or a cut, that several teams are asked about is made when each of them has said yes.

    Raises
    ------
    NotFound, PermissionDenied
        There is no such round for the actor, or the role is missing.
    InvalidTransition
        Nobody is asked any more, or other queries are being restarted: then the answer is not kept.
    """
    with audited(actor=actor, verb="controller.accept") as audit:
        lock_generation()
        row = _asked(actor, key)
        row.answered_by = actor
        if row.profile is not None:
            _measure(actor, row)
        else:
            own = {team.slug for team in _asked_teams(viewer_of(actor), row)}
            row.asked_of = [team for team in row.asked_of if team not in own]
            if not row.asked_of:
                row.answer = ACCEPTED
                require_calm(actor)
                if UNDO in row.decision["arguments"]:
                    cut_chain(audit, row)
                else:
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


def awaiting(viewer: Viewer) -> list[RoundRow]:
    """Rounds that wait for a viewer's yes or no."""
    open_rows = rounds(viewer, phase=ASKED).exclude(asked=None).filter(answer="")
    return [row for row in open_rows if may_answer(viewer, row)]


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
