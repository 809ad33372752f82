"""Logging in and out, and changing the password."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import authenticate, update_session_auth_hash, views
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.forms import BooleanField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse_lazy

from dashboard.core.middleware import policy
from dashboard.pages import flash
from dashboard.teams.groups import PROVIDER
from dashboard.teams.logins import TooManyLogins, remember_device
from dashboard.teams.services import change_password


class LogIn(views.LoginView):
    """The log-in page; a throttled attempt gets the page again, with how long to wait."""

    template_name = "login.html"
    authentication_form = AuthenticationForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        has_failed = self.request.GET.get("sign-on") == "failed"
        return super().get_context_data(**kwargs) | {
            "sign_on": settings.OIDC_ISSUER and settings.OIDC_LABEL, "provider": PROVIDER, "has_failed": has_failed}

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        response = super().dispatch(request, *args, **kwargs)
        if settings.OIDC_ISSUER:  # browsers hold a form to where its answer leads, too
            parts = urlsplit(settings.OIDC_ISSUER)
            response["Content-Security-Policy"] = policy(forms_to=f"{parts.scheme}://{parts.netloc}")
        return response

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return super().post(request, *args, **kwargs)
        except TooManyLogins as error:
            response = self.render_to_response(
                self.get_context_data(form=self.authentication_form(request), throttled=error), status=429)
            response["Retry-After"] = str(error.facts["retry_after_s"])
            return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        remember_device(self.request, response, form.get_user().get_username())
        return response


class NewPassword(PasswordChangeForm):
    """The old password, the new one twice, and whether API tokens end as well."""

    end_tokens = BooleanField(required=False, label="Revoke my API tokens as well")

    def __init__(self, *args: Any, request: HttpRequest, **more: Any) -> None:
        super().__init__(*args, **more)
        self._request = request

    def clean_old_password(self) -> str:
        """The old password, where it is right; who guesses at it from somebody's session is counted as at the log-in
        page."""
        old = self.cleaned_data["old_password"]
        if authenticate(self._request, username=self.user.get_username(), password=old) != self.user:
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old


class ChangePassword(views.PasswordChangeView):
    """Changing one's own password, which ends other sessions and, on request, API tokens."""

    template_name = "password_change.html"
    form_class = NewPassword
    success_url = reverse_lazy("estate")

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    def form_valid(self, form: NewPassword) -> HttpResponse:
        change_password(
            actor=form.user, password=form.cleaned_data["new_password1"], with_tokens=form.cleaned_data["end_tokens"])
        update_session_auth_hash(self.request, form.user)
        flash.success(self.request, "Password changed.", code="password-changed")
        return redirect(self.success_url)
