"""Errors of users, teams and tokens that several services raise."""

from __future__ import annotations

from scheduler.model.errors import WeirError


class InvalidValue(WeirError):
    """A name, password, role or time that cannot be."""

    code = "invalid_value"


class LastAdmin(WeirError):
    """A team, or the installation, would be left without an admin."""

    code = "last_admin"
