"""Actors of the command line."""

from __future__ import annotations

from django.core.management.base import CommandError

from dashboard.teams.models import User


def actor_of(username: str | None) -> User:
    """The active user of that name, or the first administrator where none is named."""
    users = User.objects.filter(is_active=True)
    candidates = users.filter(username=username) if username else users.filter(is_superuser=True).order_by("pk")
    user = candidates.first()
    if user is None:
        raise CommandError(f"There is no user {username}." if username else "There is no administrator yet.")
    return user
