"""Deactivating and reactivating people of the installation, and changing passwords, which ends sessions and tokens."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from dashboard.audit.trail import Audit, audited
from dashboard.core.access_events import access_changed
from dashboard.teams.account_errors import InvalidValue, LastAdmin
from dashboard.teams.models import User
from dashboard.teams.selectors import is_last_administrator, person
from dashboard.teams.services.tokens import revoke_all


def deactivate(*, actor: User, username: str) -> User:
    """Bar somebody from logging in: sessions, API tokens and live connections end at once, approvals do not count.

    By an administrator of the installation. What the person submitted stays, and so does the membership of teams.

    Raises
    ------
    LastAdmin
        Nobody would administer the installation any more.
    """
    with audited(actor=actor, verb="user.deactivate", takes_rights=True) as audit:
        # Administrators who deactivate each other, or themselves, are one after another.
        list(User.objects.select_for_update(no_key=True).filter(is_superuser=True).order_by("pk"))
        user = _locked(audit, username)
        audit.subject = user
        if not user.is_active:
            audit.nothing_changed()
            return user
        if is_last_administrator(user):
            raise LastAdmin(
                "Nobody would administer this installation any more.",
                remedy="Let another administrator do this, after `./weir manage add_user NAME --administrator`.")
        user.is_active = False
        user.sessions_ended += 1  # so that no session comes back with the person
        user.save(update_fields=["is_active", "sessions_ended"])
        audit.details = {"username": user.username, "tokens": revoke_all(audit, user)}
        access_changed(user.pk)
        return user


def reactivate(*, actor: User, username: str) -> User:
    """Let somebody log in again, with the roles that they had; their sessions and tokens stay ended."""
    with audited(actor=actor, verb="user.reactivate") as audit:
        user = _locked(audit, username)
        audit.subject, audit.details = user, {"username": user.username}
        if user.is_active:
            audit.nothing_changed()
            return user
        user.is_active = True
        user.save(update_fields=["is_active"])
        access_changed(user.pk)
        return user


def change_password(*, actor: User, password: str, with_tokens: bool) -> None:
    """Give the actor a new password. It ends all sessions and live connections, and with ``with_tokens`` all API
    tokens.

    The caller begins a new session for the actor.
    """
    try:
        validate_password(password, actor)
    except ValidationError as error:
        raise InvalidValue(" ".join(error.messages), remedy="Choose another password.") from error
    with audited(actor=actor, verb="user.change_password", subject=actor) as audit:
        actor.set_password(password)
        actor.save(update_fields=["password"])
        audit.details = {"tokens": revoke_all(audit, actor) if with_tokens else 0}
        access_changed(actor.pk)


def _locked(audit: Audit, username: str) -> User:
    return User.objects.select_for_update().get(pk=person(audit.viewer, username).pk)
