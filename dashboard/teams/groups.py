"""The name of a provider of single sign-on, and what its groups give: roles in teams, or the administration.

`WEIR_OIDC_ROLES` says so, as entries ``group:team:role`` and ``group:*:administrator``. Teams that no entry names, and
the administration where no entry gives it, are not decided by groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

ADMINISTRATION, ADMINISTRATOR = "*", "administrator"
PROVIDER = "oidc"  # by which allauth and addresses know it
ROLE_NAMES = ("viewer", "engineer", "approver", "admin")  # each includes those before it


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of one group: a role in a team, by its short name, or ``administrator`` in ``*``."""

    group: str
    team: str
    role: str

    def __post_init__(self) -> None:
        is_administration = (self.team == ADMINISTRATION, self.role == ADMINISTRATOR)
        if not self.group or not self.team or len(set(is_administration)) > 1:
            raise ValueError("a group, a team and a role, or * and administrator")
        if self.role not in (*ROLE_NAMES, ADMINISTRATOR):
            raise ValueError(f"a role of {', '.join(ROLE_NAMES)}")


@dataclass(frozen=True, slots=True)
class Granted:
    """The role that somebody's groups give in each team that groups decide about (None: no member).

    ``administrator`` is None where groups do not decide about that. ``any`` says whether some group gave something.
    """

    roles: dict[str, str | None] = field(default_factory=dict)
    administrator: bool | None = None
    any: bool = False


def grant_of(entry: str) -> Grant:
    """An entry of the setting; a group's name may hold colons. Raises ``ValueError`` for what is none.

    >>> grant_of("eng:city:engineer")
    Grant(group='eng', team='city', role='engineer')
    """
    parts = entry.rsplit(":", 2)
    if len(parts) != 3:
        raise ValueError("three parts by colons")
    return Grant(*parts)


def granted(grants: Iterable[Grant], groups: Collection[str]) -> Granted:
    """The roles that these groups give; of several in one team the highest."""
    all_grants, group_names = list(grants), set(groups)
    matching_grants = [grant for grant in all_grants if grant.group in group_names]
    roles = {
        team: max((grant.role for grant in matching_grants if grant.team == team), key=ROLE_NAMES.index, default=None)
        for team in {grant.team for grant in all_grants} - {ADMINISTRATION}}
    decides = any(grant.team == ADMINISTRATION for grant in all_grants)
    return Granted(
        roles, any(grant.team == ADMINISTRATION for grant in matching_grants) if decides else None,
        bool(matching_grants))


def providers(*, issuer: str, client_id: str, secret: str, scopes: list[str]) -> dict[str, Any]:
    """The provider as allauth's settings name it; nothing where there is none.

    Parameters
    ----------
    issuer : str
        Its address; empty where there is none.
    """
    if not issuer:
        return {}
    return {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "SCOPE": scopes, "APPS": [{
        "provider_id": PROVIDER, "name": PROVIDER, "client_id": client_id, "secret": secret,
        "settings": {"server_url": issuer}}]}}
