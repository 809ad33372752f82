"""Permissions. A ``Viewer`` is everything that a rule needs to know of a user, read once a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dashboard.teams.models import Role, Team, User
from scheduler.model.errors import PermissionDenied


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user's roles by team id. Two viewers with one ``scope`` may see the same things."""

    user_id: int
    roles: Mapping[int, Role]
    superuser: bool = False
    most: Role = Role.ADMIN  # what the viewer may do at most, whatever the roles: a token may allow less

    @property
    def team_ids(self) -> tuple[int, ...]:
        """The teams that the viewer is a member of, sorted."""
        return tuple(sorted(self.roles))

    @property
    def scope(self) -> str:
        """A key for what the viewer may see: ``all``, or the teams' ids."""
        return "all" if self.superuser else "teams:" + ".".join(str(team_id) for team_id in self.team_ids)

    def may_all_of(self, other: Viewer) -> bool:
        """True if the viewer may do whatever the other may."""
        return self.superuser or (not other.superuser and all(
            self.roles.get(team_id, 0) >= role for team_id, role in other.roles.items()))

    def sees_private_of(self, team_id: int) -> bool:
        """True if the viewer may know of this team's private dataflows."""
        return self.superuser or team_id in self.roles

    def has_role(self, team_id: int, role: Role) -> bool:
        """True if the viewer holds at least this role in the team; an administrator of the installation does."""
        return role <= self.most and (self.superuser or self.roles.get(team_id, 0) >= role)

    def has_role_anywhere(self, role: Role) -> bool:
        """True if the viewer holds at least this role in some team; an administrator of the installation does."""
        return role <= self.most and (self.superuser or any(team_role >= role for team_role in self.roles.values()))

    @property
    def administers(self) -> bool:
        """True if the viewer may do what administrators of the installation do."""
        return self.superuser and self.most == Role.ADMIN


NOBODY = Viewer(user_id=0, roles=MappingProxyType({}))


def viewer_of(user: User) -> Viewer:
    """The permissions of a user; nothing, unless active and logged in. By a token, no more than its scope."""
    if not user.is_authenticated or not user.is_active:
        return NOBODY
    most = user.most_role
    roles = {team_id: Role(min(role, most)) for team_id, role in user.memberships.values_list("team_id", "role")}
    user.looked_at = Viewer(user_id=user.pk, roles=MappingProxyType(roles), superuser=user.is_superuser, most=most)
    return user.looked_at


def viewer_at_turn(user: User) -> Viewer:
    """The viewer as by `viewer_of`, by what the database says when a command has its turn, for which it has waited in
    line."""
    before, user.looked_at = user.looked_at, None
    user.refresh_from_db(fields=["is_active", "is_superuser"])
    viewer = viewer_of(user)
    user.looked_at = None
    if not user.is_active or (before is not None and not viewer.may_all_of(before)):
        raise PermissionDenied(
            f"The rights of {user.username} ended while this waited for its turn.", remedy="Reload the page.")
    return viewer


def require_role(viewer: Viewer, team: Team, role: Role) -> None:
    """Raise ``PermissionDenied`` unless the viewer holds at least this role in the team."""
    if not viewer.has_role(team.pk, role):
        raise PermissionDenied(
            f"This needs the role {role.label} in {team.name}.",
            remedy=f"Ask an admin of {team.name} for that role.", role=role.label, team=team.slug,
        )


def require_superuser(viewer: Viewer) -> None:
    """Raise ``PermissionDenied`` unless the viewer administers the installation."""
    if not viewer.administers:
        raise PermissionDenied("Only an administrator of this installation may do this.", remedy="Ask one of them.")
