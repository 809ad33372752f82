"""Making and revoking API tokens: what each lets a program do, and for how long."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from dashboard.audit.trail import Audit, audited
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import ApiToken, TokenScope, User
from dashboard.teams.permissions import viewer_of
from dashboard.teams.selectors import token_digest, tokens_for
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.names import require_plain

MOST_TOKENS = 50


def create_token(
    *, actor: User, name: str, scope: str = TokenScope.SUBMIT, days: int | None = None
) -> tuple[ApiToken, str]:
    """A new API token for the actor, and its secret, which is shown this once.

    Parameters
    ----------
    scope : str, optional
        The largest permission of a program (`TokenScope`).
    days : int, optional
        After how many days it ends, at most ``WEIR_TOKEN_LONGEST_DAYS``; none given: ``WEIR_TOKEN_DAYS``.
    """
    name = require_plain(name.strip(), what="The token's name", most=80)
    if scope not in TokenScope.values:
        raise InvalidValue(f"{scope[:40]!r} is no scope.", remedy=f"Choose one of {', '.join(TokenScope.values)}.")
    longest = settings.TOKEN_LONGEST_DAYS
    days = min(settings.TOKEN_DAYS, longest) if days is None else days
    if not 1 <= days <= longest:
        raise InvalidValue(f"A token cannot last {days} days here.", remedy=f"Choose 1 to {longest} days.")
    secret = f"weir_{secrets.token_urlsafe(32)}"
    with audited(actor=actor, verb="token.create") as audit:
        if not User.objects.select_for_update(no_key=True).get(pk=actor.pk).is_active:  # while this waited for its turn
            raise PermissionDenied(f"{actor.username} is deactivated.", remedy="Ask an administrator.")
        if actor.api_tokens.count() >= MOST_TOKENS:
            raise InvalidValue(
                f"You have {MOST_TOKENS} tokens, which is the most.", remedy="Revoke one that is not used any more.")
        token = ApiToken.objects.create(
            user=actor, name=name, digest=token_digest(secret), scope=scope,
            expires=timezone.now() + timedelta(days=days))
        audit.subject, audit.details = token, {"name": name, "scope": scope, "days": days}
        return token, secret


def revoke_token(*, actor: User, token_id: int) -> None:
    """Revoke one of the actor's API tokens; an administrator of the installation revokes anybody's."""
    with audited(actor=actor, verb="token.revoke") as audit:
        token = tokens_for(viewer_of(actor)).filter(pk=token_id).first()
        if token is None:
            raise NotFound("You have no such token.", remedy="Reload the page.")
        audit.subject = ApiToken(pk=token.pk)
        audit.details = {"name": token.name, "user": token.user.username}
        token.delete()


def revoke_all(audit: Audit, user: User) -> int:
    """Revoke every token of a user, inside the caller's audited command; how many there were."""
    tokens = list(user.api_tokens.all())
    for token in tokens:
        audit.also(verb="token.revoke", subject=token, team=None, name=token.name, user=user.username)
    user.api_tokens.all().delete()
    return len(tokens)
