"""Writing users, teams and what they choose, memberships and secrets."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.core.access_events import access_changed
from dashboard.teams.account_errors import InvalidValue, LastAdmin
from dashboard.teams.models import Membership, Role, Secret, Team, User
from dashboard.teams.permissions import require_role, require_superuser, viewer_of
from dashboard.teams.team_secrets import running_tasks_with
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.names import require_plain
from scheduler.model.secrets import SECRET_NAME

LONGEST_SECRET = 8_192
MOST_SECRETS = 200  # of a team


class SecretInUse(WeirError):
    """Running tasks need the secret."""

    code = "secret_in_use"


def create_user(*, username: str, password: str, actor: User | None = None, superuser: bool = False) -> User:
    """Add a user; by an administrator, or by the installation itself (``actor`` None)."""
    if actor is not None:
        require_superuser(viewer_of(actor))
    require_plain(username, what="The user name", most=150)
    with audited(actor=actor, verb="user.create") as audit:
        user = User(username=username, is_superuser=superuser, is_staff=superuser)
        user.set_password(password)
        try:
            user.full_clean()
            validate_password(password, user)
        except ValidationError as error:
            raise InvalidValue(" ".join(error.messages), remedy="Choose another name or password.") from error
        user.save()
        audit.subject, audit.details = user, {"username": username, "superuser": superuser}
        return user


def create_team(*, slug: str, name: str, actor: User | None = None) -> Team:
    """Add a team; by an administrator, or by the installation itself."""
    if actor is not None:
        require_superuser(viewer_of(actor))
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise InvalidValue(
            f"{slug!r} is no short name.", remedy="Use letters, digits, hyphens and underscores.") from error
    if len(slug) > 40:
        raise InvalidValue("The short name is too long.", remedy="Use at most 40 characters.")
    name = require_plain(name.strip(), what="The team's name", most=80)
    if Team.objects.filter(slug=slug).exists():
        raise InvalidValue(f"There is a team {slug!r} already.", remedy="Choose another short name.")
    with audited(actor=actor, verb="team.create") as audit:
        team = Team.objects.create(slug=slug, name=name)
        audit.subject, audit.team = team, team
        return team


def set_role(*, user: User, team: Team, role: Role, actor: User | None = None) -> Membership:
    """Give a user a role in a team; by an admin of the team, or by the installation itself."""
    with audited(actor=actor, verb="team.set_role", subject=team, team=team, takes_rights=True) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # who take each other's role have turns
        if actor is not None:
            require_role(audit.viewer, team, Role.ADMIN)
        before = Membership.objects.select_for_update().filter(user=user, team=team).first()
        _keep_an_admin(team, before, after=Role(role), actor=actor)
        membership, _ = Membership.objects.update_or_create(user=user, team=team, defaults={"role": role})
        audit.details = {
            "user": user.username, "role": Role(role).label, "before": Role(before.role).label if before else None}
        access_changed(user.pk)
        return membership


def remove_member(*, user: User, team: Team, actor: User) -> None:
    """Take a user out of a team; by an admin of the team, or by the user."""
    with audited(actor=actor, verb="team.remove_member", subject=team, team=team, takes_rights=True) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        if actor.pk != user.pk:
            require_role(audit.viewer, team, Role.ADMIN)
        membership = Membership.objects.select_for_update().filter(user=user, team=team).first()
        if membership is None:
            raise NotFound(f"{user.username} is not in {team.name}.", remedy="Reload the page.")
        _keep_an_admin(team, membership, after=None, actor=actor)
        membership.delete()
        audit.details = {"user": user.username}
        access_changed(user.pk)


def set_containment(*, actor: User, team: Team, on: bool) -> Team:
    """Let plans of the team's dataflows make tasks from wider ones that run, or not; by an admin of the team.

    What runs stays as it is; plans from now on are made so.
    """
    require_role(viewer_of(actor), team, Role.ADMIN)
    with audited(actor=actor, verb="team.set_containment", subject=team, team=team) as audit:
        audit.choose(team, "containment", on)
        return team


def set_secret(*, actor: User, team: Team, name: str, value: str) -> Secret:
    """Keep a value under a name, in place of what was there; by an admin of the team. It is sealed before it is stored.

    Queries that run go on with the old value; the new one is read when a query starts.
    """
    require_role(viewer_of(actor), team, Role.ADMIN)  # before the turn, so that others wait for nobody without a right
    if SECRET_NAME.fullmatch(name) is None:
        raise InvalidValue(
            "That is no name for a secret.", remedy="Use 1 to 63 small letters, digits, dashes and underscores.")
    if not value or len(value) > LONGEST_SECRET or "\0" in value:
        raise InvalidValue("That cannot be kept as a secret.", remedy=f"Give 1 to {LONGEST_SECRET:,} characters.")
    with audited(actor=actor, verb="secret.set", team=team) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        require_role(audit.viewer, team, Role.ADMIN)
        before = Secret.objects.select_for_update().filter(team=team, name=name).first()
        if before is None and Secret.objects.filter(team=team).count() >= MOST_SECRETS:
            raise InvalidValue(f"{team.name} has {MOST_SECRETS} secrets already.", remedy="Delete one.")
        secret = before or Secret(team=team, name=name)
        secret.sealed, secret.set_by = jobs.seal(value), actor
        secret.save()
        audit.subject, audit.details = secret, {"replaced": before is not None}
        jobs.republish()
        return secret


def delete_secret(*, actor: User, team: Team, name: str) -> None:
    """Delete a secret that no running task needs."""
    require_role(viewer_of(actor), team, Role.ADMIN)
    with audited(actor=actor, verb="secret.delete", team=team) as audit:
        secret = Secret.objects.select_for_update().filter(team=team, name=name).first()
        if secret is None:
            raise NotFound(f"{team.name} has no secret of that name.", remedy="See the list of its secrets.")
        if tasks := running_tasks_with(team, name):
            raise SecretInUse(
                f"{tasks} running task{'s need' if tasks > 1 else ' needs'} it.",
                remedy="Remove the dataflows that use it first, or set another value.", name=name, tasks=tasks)
        audit.subject, audit.details = Secret(pk=secret.pk), {"name": name}
        secret.delete()
        jobs.republish()


def _keep_an_admin(team: Team, membership: Membership | None, *, after: Role | None, actor: User | None) -> None:
    loses_admin = membership is not None and membership.role == Role.ADMIN and after != Role.ADMIN
    if loses_admin and actor is not None and not actor.is_superuser:
        others = Membership.objects.filter(team=team, role=Role.ADMIN).exclude(pk=membership.pk)
        if not others.exists():
            raise LastAdmin(f"{team.name} would have no admin.", remedy="Make another member admin first.")


def set_freshness(*, actor: User, team: Team, limit_s: float | None) -> Team:
    """Say how late events may be, in the mean, in the team's dataflows that ask for nothing themselves.

    By an admin of the team. Batches follow within seconds; intervals restart nothing.

    Parameters
    ----------
    limit_s : float, optional
        Seconds; None where nobody waits for their events.
    """
    require_role(viewer_of(actor), team, Role.ADMIN)
    if limit_s is not None:
        try:
            LatencyLimit(limit_s)
        except ValueError as error:
            raise InvalidValue(f"That is no freshness: {error}.", remedy="Give seconds, or none.") from error
    with audited(actor=actor, verb="team.set_freshness", subject=team, team=team) as audit:
        audit.choose(team, "freshness_s", limit_s)
        return team
