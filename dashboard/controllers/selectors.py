"""Reading controllers, as far as the viewer may know of what they are about.

- ``acting_teams(controller)``: teams that let it act
- ``rounds(viewer, …)``, ``reasons(viewer, …)``: the newest first
- ``overview(viewer)``: each controller with its teams, what is left of budgets, promises kept and broken
- ``played(viewer, …)``: a dry run over kept history
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import visible_to
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.models import LoopRow, ReasonRow, RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.controllers.stored_rounds import policies_of, policies_of_all, state_of
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import NOBODY, Viewer
from scheduler.controllers.controller_port import Controller
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.dry_run import DryRun, Frame, dry_run
from scheduler.controllers.loop_values import ACTS, BROKEN, HOUR_S, KEPT, OFF, ROLLED_BACK, Policy
from scheduler.controllers.vetoes import Allowance, allowance
from scheduler.model.errors import NotFound, WeirError

LONGEST_DRY_RUN_H = 24 * 7
WORKS_S = 5.0  # CPU seconds of one dry run: somebody waits for it, and others for the process
SHARED = "What is shared"  # the name of what belongs to no team


class DryRunTooLong(WeirError):
    """A dry run needs more time than anybody waits for."""

    code = "dry_run_too_long"


@dataclass(frozen=True, slots=True)
class TeamRow:
    """One team's permission for a controller; without a slug it is what belongs to all."""

    slug: str
    name: str
    policy: Policy
    left: Allowance
    may_change: bool


@dataclass(frozen=True, slots=True)
class ControllerSummary:
    """A controller with its teams, and how many promises came in the last 30 days, or did not."""

    controller: Controller
    teams: tuple[TeamRow, ...]
    promises_kept: int
    promises_broken: int
    open: int
    decided: datetime | None


def acting_teams(controller: str) -> set[int]:
    """The ids of the teams that let a controller act by itself."""
    policies = policies_of(CONTROLLERS[controller])
    return {
        team_id for team_id, slug in Team.objects.values_list("pk", "slug") if policies[slug].mode == ACTS}


def modes_of(team: Team) -> list[tuple[Controller, str]]:
    """Each controller, and what it may do for a team."""
    policies = policies_of_all(CONTROLLERS.values())
    return [(controller, policies[controller.name][team.slug].mode) for controller in CONTROLLERS.values()]


def rounds(viewer: Viewer, *, controller: str = "", team: str = "", phase: str = "") -> QuerySet[RoundRow]:
    """Rounds that the viewer may know of, the newest first."""
    rows = RoundRow.objects.filter(_known_to(viewer)).select_related(
        "team", "dataflow__team", "profile__team", "sweep", "proposal")
    if controller:
        rows = rows.filter(controller=controller)
    if team:
        rows = rows.filter(team__slug=team) if "\0" not in team else rows.none()
    return rows.filter(phase=phase) if phase and "\0" not in phase else rows


def reasons(viewer: Viewer, *, controller: str) -> QuerySet[ReasonRow]:
    """The reasons why a controller left things as they are, of the viewer's own teams and of what belongs to all."""
    rows = ReasonRow.objects.filter(controller=controller).select_related("team", "dataflow", "profile")
    if viewer.superuser:
        return rows
    return rows.filter(Q(team_id__in=viewer.team_ids) | (Q(team=None) & _known_to(viewer)))


def overview(viewer: Viewer) -> list[ControllerSummary]:
    """Every controller, as the viewer's teams have it."""
    at, loop = timezone.now(), LoopRow.objects.filter(pk=1).first() or LoopRow()
    state = state_of(loop, at=at)
    since = at - timedelta(days=30)
    rows, policies_by_controller = [], policies_of_all(CONTROLLERS.values())
    for controller in CONTROLLERS.values():
        policies = policies_by_controller[controller.name]
        ended = Counter(rounds(viewer, controller=controller.name).filter(ended__gte=since).values_list(
            "phase", flat=True))
        teams = tuple(
            TeamRow(slug, name, policies[slug], allowance(
                state, controller.name, slug, policies[slug], now_s=at.timestamp()), may_change)
            for slug, name, may_change in _teams_of(viewer))
        decided_s = loop.decided_s.get(controller.name)
        rows.append(ControllerSummary(
            controller, teams, ended[KEPT], ended[BROKEN] + ended[ROLLED_BACK],
            rounds(viewer, controller=controller.name).filter(ended=None).count(),
            None if decided_s is None else datetime.fromtimestamp(decided_s, at.tzinfo)))
    return rows


def played(
    viewer: Viewer, controller: Controller, *, team: str, hours: float, policy: Policy,
    spent_s: Callable[[], float] = time.thread_time,
) -> DryRun:
    """The decisions that a controller would have made for one team over the last hours of kept history, if it had
    acted.

    Parameters
    ----------
    team : str
        The team's short name; empty for what belongs to all.
    hours : float
        The hours back from now; at most a week, and not before the oldest dataflow that runs was submitted.

    Raises
    ------
    NotFound
        The viewer is not in such a team.
    DryRunTooLong
        It takes more than some seconds of CPU.
    """
    until_s = spent_s() + WORKS_S
    if team not in {slug for slug, _, _ in _teams_of(viewer)}:
        raise NotFound("You are in no such team.", remedy="Choose one of your teams.")
    end = timezone.now()
    begin_s = end.timestamp() - HOUR_S * min(max(hours, 1.0), LONGEST_DRY_RUN_H)
    policies = {slug: replace(policy, mode=OFF) for slug, policy in policies_of(controller).items()}
    oldest = DataflowRecord.objects.filter(status=RUNNING).aggregate(at=Min("created"))["at"]
    if oldest is not None:  # before, nothing of what runs was there; queries have begun later, where they were moved
        begin_s = max(begin_s, oldest.timestamp())
    frames = COLLECTORS[controller.reads].frames(StoredWorld(end), begin_s, end.timestamp())
    return dry_run(controller, _until(frames, until_s, spent_s), policies | {team: replace(policy, mode=ACTS)})


def _until(frames: Iterable[Frame], until_s: float, spent_s: Callable[[], float]) -> Iterator[Frame]:
    """Frames, as long as the time lasts."""
    for frame in frames:
        if spent_s() > until_s:
            raise DryRunTooLong(
                f"This dry run takes more than {WORKS_S:g} s.", remedy="Ask for fewer hours.")
        yield frame


def _teams_of(viewer: Viewer) -> list[tuple[str, str, bool]]:
    """Slug, name and whether the viewer may change it: the own teams, and what belongs to all."""
    teams = Team.objects.all() if viewer.superuser else Team.objects.filter(pk__in=viewer.team_ids)
    return [*((team.slug, team.name, viewer.has_role(team.pk, Role.ADMIN)) for team in teams),
            ("", SHARED, viewer.superuser)]


def _known_to(viewer: Viewer) -> Q:
    if viewer.superuser:
        return Q()
    if viewer.user_id == NOBODY.user_id:
        return Q(pk__in=[])
    of_a_dataflow = Q(dataflow__isnull=False) & visible_to(viewer, through="dataflow__")
    of_a_profile = Q(profile__isnull=False) & (Q(profile__team=None) | Q(profile__team_id__in=viewer.team_ids))
    return of_a_dataflow | of_a_profile | Q(dataflow=None, profile=None, team_id__in=viewer.team_ids)
