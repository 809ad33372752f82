"""Single sign-on by OpenID Connect: allauth speaks the protocol, and whom it names comes in by `services.sign_on`.

Beside local accounts, and off unless ``WEIR_OIDC_ISSUER`` is set. How often a device or an address begins without
coming in is bounded as failed log-ins are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import requests
import structlog
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.teams.logins import forget_attempts, remember_device
from dashboard.teams.provider_session import provider_session
from dashboard.teams.services import Identity, sign_on

log = structlog.get_logger(__name__)
MOST_GROUPS = 1000
BACKEND = "dashboard.teams.logins.ThrottledBackend"


class SignOnAdapter(DefaultSocialAccountAdapter):
    """Adapter from allauth's identity to Weir's users: logs the user in, and leaves allauth's own accounts alone."""

    def get_requests_session(self) -> requests.Session:
        """The session for allauth's requests to the provider."""
        return provider_session()

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> NoReturn:
        """Log in whom the provider names, and go where the person wanted to."""
        user = sign_on(identity_of(sociallogin.account.extra_data))
        login(request, user, backend=BACKEND)
        request.session.set_expiry(int(settings.OIDC_SESSION_H * 3600))
        forget_attempts(request)
        target = sociallogin.state.get("next") or ""
        is_here = url_has_allowed_host_and_scheme(
            target, allowed_hosts={request.get_host()}, require_https=request.is_secure())
        response = redirect(target if is_here else resolve_url(settings.LOGIN_REDIRECT_URL))
        remember_device(request, response, user.get_username())
        raise ImmediateHttpResponse(response)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Exception | None = None, **_: Any
    ) -> NoReturn:
        """Back to the log-in page; the log says what was wrong, in a line."""
        raise ImmediateHttpResponse(redirect(failed(exception or error)))


def failed(reason: object) -> str:
    """The log-in page, which says that it failed; the log says why, in a line."""
    log.warning("sign_on_failed", why=repr(reason)[:300])
    return f"{resolve_url(settings.LOGIN_URL)}?sign-on=failed"


def identity_of(claimed: Mapping[str, Any]) -> Identity:
    """The identity of a person by the ID token and what the provider answered about them, where both speak of one
    person."""
    token, answered = claimed.get("id_token") or {}, claimed.get("userinfo") or {}
    subject = str(token.get("sub") or answered.get("sub") or "")
    claims = token | answered if answered.get("sub", subject) == subject else token
    groups = claims.get(settings.OIDC_GROUPS_CLAIM) or []
    groups = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    return Identity(
        issuer=settings.OIDC_ISSUER, subject=subject, name=str(claims.get(settings.OIDC_NAME_CLAIM) or ""),
        groups=[group for group in groups[:MOST_GROUPS] if isinstance(group, str)])
