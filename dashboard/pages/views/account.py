"""Logging in and out, and changing the password."""

from __future__ import annotations

from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy

from dashboard.pages import flash
from dashboard.teams.logins import TooManyLogins, remember_device


class LogIn(views.LoginView):
    """The log-in page; a throttled attempt gets the page again, with how long to wait."""

    template_name = "login.html"
    authentication_form = AuthenticationForm
    redirect_authenticated_user = True

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


class ChangePassword(views.PasswordChangeView):
    """Changing the own password; other sessions end by it."""

    template_name = "password_change.html"
    form_class = PasswordChangeForm
    success_url = reverse_lazy("estate")

    def form_valid(self, form: Form) -> HttpResponse:
        flash.success(self.request, "Password changed.", code="password-changed")
        return super().form_valid(form)
