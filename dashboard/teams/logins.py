"""Logging in, with a throttle: failures are counted in the database, by user name and by where they come from.

Where is the device, for one that has logged in by that name before (a signed cookie says so), else the address. Whoever
guesses at a name stops himself, and not those whose name it is; who guesses from many addresses stops all devices that
are not known. A throttled attempt is refused before the password is looked at; the log-in page says how long to wait.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dashboard.teams.models import LoginFailure, User
from scheduler.model.errors import WeirError

DEVICE_COOKIE = "weir_device"
DEVICE_AGE_S = 180 * 24 * 3600


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
        name = username[:150].lower()
        device = known_device(request, name)
        address = f"device:{device}" if device else _address(request)
        _refuse_when_throttled(name, address, is_known=bool(device))
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            LoginFailure.objects.create(username=name, address=address, at=timezone.now())
        else:
            LoginFailure.objects.filter(username=name, address=address).delete()
        return user


def forget_old_failures(at: datetime) -> int:
    """Delete the failures that no longer count; how many there were."""
    return LoginFailure.objects.filter(at__lt=at - timedelta(seconds=settings.LOGIN_WINDOW_S)).delete()[0]


def begin_attempt(request: HttpRequest) -> None:
    """Count that somebody begins to sign on elsewhere; as a failure, until they come back.

    Attempts are counted by device, where anybody has logged in on it before, else by address: many people may have one
    address, and whoever begins in vain there does not stop their devices. Raises ``TooManyLogins`` where there were too
    many.
    """
    address = _where_attempts_count(request)
    _refuse_when_throttled("", address, is_known=False)
    LoginFailure.objects.create(username="", address=address, at=timezone.now())


def forget_attempts(request: HttpRequest) -> None:
    """Forget the attempts of a device or address that has come in: what began there before counts no more."""
    LoginFailure.objects.filter(username="", address=_where_attempts_count(request)).delete()


def remember_device(request: HttpRequest, response: HttpResponse, username: str) -> None:
    """Let the device of a log-in be known by this name: others who guess at it do not lock it out."""
    name = username[:150].lower()
    device = known_device(request, name) or secrets.token_hex(16)
    response.set_cookie(
        DEVICE_COOKIE, signing.dumps([name, device], salt=DEVICE_COOKIE), max_age=DEVICE_AGE_S, httponly=True,
        samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)


def known_device(request: HttpRequest | None, name: str) -> str:
    """The id of a device that has logged in by this name; empty where it has not."""
    of, device = _device(request)
    return device if of == name else ""


def _device(request: HttpRequest | None) -> tuple[str, str]:
    """The name by which a device has logged in, and its id; empty where it has not."""
    cookie = "" if request is None else request.COOKIES.get(DEVICE_COOKIE, "")
    try:
        name, device = signing.loads(cookie, salt=DEVICE_COOKIE, max_age=DEVICE_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return "", ""
    return name, device


def _where_attempts_count(request: HttpRequest) -> str:
    _, device = _device(request)
    return f"device:{device}" if device else _address(request)


def _refuse_when_throttled(username: str, address: str, *, is_known: bool) -> None:
    since = timezone.now() - timedelta(seconds=settings.LOGIN_WINDOW_S)
    recent = LoginFailure.objects.filter(at__gte=since)
    failures = []
    if username:
        failures.append((recent.filter(username=username, address=address), settings.LOGIN_FAILURES_ALLOWED))
    if username and not is_known:
        failures.append((recent.filter(username=username), settings.LOGIN_FAILURES_ALLOWED_BY_NAME))
    if address and not is_known:
        # Beginnings of single sign-on, which have no name, are no guesses: neither count stops the other way in.
        of_address = recent.filter(address=address)
        of_address = of_address.exclude(username="") if username else of_address.filter(username="")
        failures.append((of_address, settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS))
    if any(failed.count() >= allowed for failed, allowed in failures):
        raise TooManyLogins(
            "Too many failed log-ins.", remedy=f"Wait {settings.LOGIN_WINDOW_S // 60} minutes, then try again.",
            retry_after_s=settings.LOGIN_WINDOW_S,
        )


def _address(request: HttpRequest | None) -> str:
    return "" if request is None else str(request.META.get("REMOTE_ADDR", ""))[:64]
