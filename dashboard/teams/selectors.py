"""Reading teams and members.

- ``teams(viewer)``: teams that the viewer is in, or all as administrator
- ``teams_to_submit_for(viewer)``: where the viewer is at least engineer
- ``members(team)``: memberships with their users
- ``tokens(user)``: API tokens, newest first
- ``models(team)``: what it has learned and keeps, by name and version
- ``secrets(team)``: its secrets by name, without their values; ``sealed_secrets()``: all values, sealed
"""

from __future__ import annotations

from django.db.models import QuerySet

from dashboard import jobs
from dashboard.teams.models import ApiToken, Membership, Role, Secret, Team, User
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound


def teams(viewer: Viewer) -> QuerySet[Team]:
    """The viewer's teams by name; every team for an administrator of the installation."""
    return Team.objects.all() if viewer.superuser else Team.objects.filter(pk__in=viewer.team_ids)


def all_teams() -> QuerySet[Team]:
    """Every team: their names are no secret, and lists are filtered by them."""
    return Team.objects.all()


def teams_to_submit_for(viewer: Viewer) -> QuerySet[Team]:
    """Teams in which the viewer is at least engineer."""
    if viewer.superuser:
        return Team.objects.all()
    return Team.objects.filter(pk__in=[pk for pk, role in viewer.roles.items() if role >= Role.ENGINEER])


def team(viewer: Viewer, slug: str) -> Team:
    """One of the viewer's teams, or ``NotFound``."""
    team = None if "\0" in slug else teams(viewer).filter(slug=slug).first()
    if team is None:
        raise NotFound("There is no such team that you are in.", remedy="See the list of your teams.")
    return team


def members(team: Team) -> QuerySet[Membership]:
    """Memberships of a team, by user name."""
    return team.memberships.select_related("user").order_by("user__username")


def tokens(user: User) -> QuerySet[ApiToken]:
    """A user's API tokens, newest first."""
    return user.api_tokens.order_by("-created")


def models(team: Team) -> tuple[jobs.ModelVersion, ...] | None:
    """The models that a team keeps, by name and the newest version first; None where the broker is away."""
    return jobs.models_of(team.slug)


def secrets(team: Team) -> QuerySet[Secret]:
    """A team's secrets by name, without their values."""
    return team.secrets.defer("sealed").select_related("set_by")


def sealed_secrets() -> dict[str, str]:
    """All sealed values by ``team/name``, as the broker holds them."""
    return {
        f"{slug}/{name}": sealed for slug, name, sealed in Secret.objects.values_list("team__slug", "name", "sealed")}
