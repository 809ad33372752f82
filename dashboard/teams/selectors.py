"""Reading teams and members.

- ``teams(viewer)``: teams that the viewer is in, or all as administrator
- ``teams_to_submit_for(viewer)``: where the viewer is at least engineer
- ``members(team)``: memberships with their users
- ``tokens_for(viewer)``: API tokens, newest first; ``people(viewer)``: everybody, for administrators
- ``models(team)``: what it has learned and keeps, by name and version
- ``secrets(team)``: its secrets by name, without their values; ``sealed_secrets()``: all values, sealed
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from dashboard import jobs
from dashboard.teams.models import ApiToken, Membership, Role, Secret, Team, User
from dashboard.teams.permissions import Viewer, require_superuser
from scheduler.model.errors import NotFound


def teams(viewer: Viewer) -> QuerySet[Team]:
    """The viewer's teams by name; every team for an administrator of the installation."""
    return Team.objects.all() if viewer.superuser else Team.objects.filter(pk__in=viewer.team_ids)


def slugs_known_to(viewer: Viewer) -> list[str] | None:
    """The short names of the teams whose own affairs a viewer may know of; None for an administrator: of all."""
    return None if viewer.superuser else list(teams(viewer).values_list("slug", flat=True))


def all_teams() -> QuerySet[Team]:
    """Every team: their names are no secret, and lists are filtered by them."""
    return Team.objects.all()


def teams_to_submit_for(viewer: Viewer) -> QuerySet[Team]:
    """Teams in which the viewer is at least engineer."""
    if viewer.superuser and viewer.has_role_anywhere(Role.ENGINEER):
        return Team.objects.all()
    return Team.objects.filter(pk__in=[pk for pk, role in viewer.roles.items() if role >= Role.ENGINEER])


def team(viewer: Viewer, slug: str) -> Team:
    """One of the viewer's teams, or ``NotFound``."""
    team = None if "\0" in slug else teams(viewer).filter(slug=slug).first()
    if team is None:
        raise NotFound("You are in no such team.", remedy="See the list of your teams.")
    return team


def members(team: Team) -> QuerySet[Membership]:
    """Memberships of a team, by user name."""
    return team.memberships.select_related("user").order_by("user__username")


def admins_to_ask(viewer: Viewer) -> list[str]:
    """The admins of the viewer's teams, each with its team: who may give the viewer another role."""
    admins = Membership.objects.filter(team__in=viewer.team_ids, role=Role.ADMIN, user__is_active=True)
    return [f"{admin.user.username} ({admin.team.name})" for admin in admins.select_related("user", "team").order_by(
        "team__name", "user__username")]


def tokens_for(viewer: Viewer) -> QuerySet[ApiToken]:
    """The tokens that a viewer may revoke, newest first: the own ones, or everybody's as administrator."""
    tokens = ApiToken.objects.select_related("user").order_by("-created", "-pk")
    return tokens if viewer.administers else tokens.filter(user_id=viewer.user_id)


def is_last_administrator(user: User) -> bool:
    """True if nobody else who may log in administers the installation."""
    return user.is_superuser and not User.objects.filter(
        is_superuser=True, is_active=True).exclude(pk=user.pk).exists()


def has_ended(token: ApiToken, *, at: datetime) -> bool:
    """True if a token's time is over; one without an end was made before there were ends."""
    return token.expires is not None and token.expires <= at


def good_token(secret: str) -> ApiToken | None:
    """The API token of that secret, with its user; None if it is unknown or has ended, or its user is deactivated."""
    token = ApiToken.objects.select_related("user").filter(digest=token_digest(secret), user__is_active=True).first()
    return None if token is None or has_ended(token, at=timezone.now()) else token


def token_digest(secret: str) -> str:
    """The stored digest of a token. A fast hash is right: the secret is 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def people(viewer: Viewer) -> QuerySet[User]:
    """The people with teams and tokens, by name; for administrators of the installation."""
    require_superuser(viewer)
    memberships = Membership.objects.select_related("team").order_by("team__name")
    return User.objects.order_by("username").prefetch_related(
        "socialaccount_set",
        Prefetch("memberships", queryset=memberships), "api_tokens")


def person(viewer: Viewer, username: str) -> User:
    """One of them, or ``NotFound``."""
    user = None if "\0" in username else people(viewer).filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username[:150]!r}.", remedy="See the list of people.")
    return user


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
