"""The routes of API tokens and, for administrators of the installation, of people.

``docs/api.md`` describes them.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Status

from dashboard.api import schemas
from dashboard.api.answers.common import row_of
from dashboard.api.answers.people import Person, Token, TokenRow
from dashboard.api.auth import Session
from dashboard.teams import selectors as teams
from dashboard.teams.models import ApiToken, Role, User
from dashboard.teams.services import create_token, deactivate, reactivate, revoke_token

router = Router()


@router.get("/tokens", response=list[TokenRow])
def tokens(request: HttpRequest) -> list[dict[str, Any]]:
    """The caller's API tokens, newest first; never their secrets."""
    return [_token_row(token) for token in teams.tokens_for(request.viewer).filter(user_id=request.user.pk)]


@router.post("/tokens", response={201: Token}, auth=Session())
def make_token(request: HttpRequest, token: schemas.TokenIn) -> Status:
    """A new API token; its secret is shown this once. Needs a session: a token makes no tokens."""
    made, secret = create_token(actor=request.user, name=token.name, scope=token.scope, days=token.days)
    return Status(201, _token_row(made) | {"secret": secret})


@router.delete("/tokens/{int:token_id}", response={204: None}, auth=Session())
def drop_token(request: HttpRequest, token_id: int) -> Status:
    """Revoke one of the caller's API tokens; an administrator revokes anybody's."""
    revoke_token(actor=request.user, token_id=token_id)
    return Status(204, None)


@router.get("/people", response=list[Person])
def people(request: HttpRequest) -> list[dict[str, Any]]:
    """The people with roles and tokens; for administrators of the installation."""
    return [_person_row(user) for user in teams.people(request.viewer)]


@router.post("/people/{str:username}/deactivate", response=Person)
def deactivate_person(request: HttpRequest, username: str) -> dict[str, Any]:
    """Let somebody log in no more: sessions, tokens and live connections end; by an administrator."""
    deactivate(actor=request.user, username=username)
    return _person_row(teams.person(request.viewer, username))


@router.post("/people/{str:username}/reactivate", response=Person)
def reactivate_person(request: HttpRequest, username: str) -> dict[str, Any]:
    """Let somebody log in again; by an administrator."""
    reactivate(actor=request.user, username=username)
    return _person_row(teams.person(request.viewer, username))


def _token_row(token: ApiToken) -> dict[str, Any]:
    return row_of(TokenRow, token, ended=teams.has_ended(token, at=timezone.now()))


def _person_row(user: User) -> dict[str, Any]:
    return {
        "username": user.username, "active": user.is_active, "administrator": user.is_superuser,
        "roles": {membership.team.slug: Role(membership.role).label for membership in user.memberships.all()},
        "last_login": user.last_login and user.last_login.isoformat(),
        "signs_on_elsewhere": bool(user.socialaccount_set.all()),
        "tokens": [_token_row(token) for token in user.api_tokens.all()]}
