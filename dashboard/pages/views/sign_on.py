"""Single sign-on: the way to the provider, and the way back. What happens between is allauth's."""

from __future__ import annotations

from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe
from requests import RequestException

from dashboard.teams.groups import PROVIDER
from dashboard.teams.logins import begin_attempt
from dashboard.teams.sign_on import failed

# The provider is away, or says nothing that can be used: no JSON, JSON of another shape, or more than allauth takes.
UNUSABLE = (
    RequestException, KeyError, ValueError, TypeError, AttributeError, RecursionError, OverflowError,
    ImproperlyConfigured)


@require_POST
def begin(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send the browser to the provider, with a state of this session alone."""
    _require_provider(provider_id)
    begin_attempt(request)
    try:
        return OAuth2LoginView.adapter_view(OpenIDConnectOAuth2Adapter(request, PROVIDER))(request)
    except UNUSABLE as error:
        return redirect(failed(error))


@require_safe
def come_back(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Take the code of the provider, which allauth changes for an identity."""
    _require_provider(provider_id)
    try:
        return OAuth2CallbackView.adapter_view(OpenIDConnectOAuth2Adapter(request, PROVIDER))(request)
    except UNUSABLE as error:
        return redirect(failed(error))


def _require_provider(provider_id: str) -> None:
    if not settings.OIDC_ISSUER or provider_id != PROVIDER:
        raise Http404
