"""Authentication of the API's callers: a session of the site (with its CSRF token), or a bearer token."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer, SessionAuth

from dashboard.teams.models import ApiToken, TokenScope, User
from dashboard.teams.permissions import viewer_of
from dashboard.teams.selectors import good_token
from scheduler.model.errors import PermissionDenied

SEEN_EVERY = timedelta(minutes=1)
READING = ("GET", "HEAD")


class BearerToken(HttpBearer):
    """``Authorization: Bearer weir_…``; acts as the token's user, with no role above what its scope lets it do.

    When a token was used last is noted once a minute.
    """

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        api_token, now = good_token(token), timezone.now()
        if api_token is None:
            return None
        if api_token.last_used is None or now - api_token.last_used > SEEN_EVERY:
            ApiToken.objects.filter(pk=api_token.pk).update(last_used=now)
        if api_token.scope == TokenScope.READ and request.method not in READING:
            raise PermissionDenied(
                "This token is for reading alone.", remedy="Make one of a wider scope on the Teams page.",
                scope=api_token.scope)
        api_token.user.most_role = TokenScope(api_token.scope).role
        request.user, request.viewer = api_token.user, viewer_of(api_token.user)
        return api_token.user


class Session(SessionAuth):
    """The site's session; writing needs the CSRF token in ``X-CSRFToken``."""

    def _get_key(self, request: HttpRequest) -> str | None:
        # Without a session there is nothing to forge, and the answer is that nobody is logged in.
        return super()._get_key(request) if self.param_name in request.COOKIES else None
