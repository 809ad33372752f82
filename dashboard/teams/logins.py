"""Logging in, with a throttle: failures are counted by user name and by address, in the database.

A throttled attempt is refused before the password is looked at, so guessing on has no use; the log-in page shows the
error with how long to wait.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest
from django.utils import timezone

from dashboard.teams.models import LoginFailure, User
from scheduler.model.errors import WeirError


class TooManyLogins(WeirError):
    """Too many failed log-ins for this user name or from this address."""

    code = "too_many_logins"


class ThrottledBackend(ModelBackend):
    """Django's own backend behind the throttle."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: object
    ) -> User | None:
        if username is None or password is None:
            return None
        name, address = username[:150].lower(), _address(request)
        _refuse_when_throttled(name, address)
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            LoginFailure.objects.create(username=name, address=address, at=timezone.now())
        else:
            LoginFailure.objects.filter(username=name).delete()
        return user


def forget_old_failures() -> int:
    """Delete the failures that no longer count; how many there were."""
    before = timezone.now() - timedelta(seconds=settings.LOGIN_WINDOW_S)
    return LoginFailure.objects.filter(at__lt=before).delete()[0]


def _refuse_when_throttled(username: str, address: str) -> None:
    since = timezone.now() - timedelta(seconds=settings.LOGIN_WINDOW_S)
    recent = LoginFailure.objects.filter(at__gte=since)
    by_name = recent.filter(username=username).count()
    by_address = recent.filter(address=address).count() if address else 0
    if by_name >= settings.LOGIN_FAILURES_ALLOWED or by_address >= settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS:
        minutes = settings.LOGIN_WINDOW_S // 60
        raise TooManyLogins(
            "Too many failed log-ins.", remedy=f"Wait {minutes} minutes, then try again.",
            retry_after_s=settings.LOGIN_WINDOW_S,
        )


def _address(request: HttpRequest | None) -> str:
    return "" if request is None else str(request.META.get("REMOTE_ADDR", ""))[:64]
