"""Who a live connection belongs to, asked anew while it lasts."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

from django.conf import settings
from django.contrib.auth import get_user

from dashboard.teams.permissions import NOBODY, Viewer, viewer_of


def viewer_of_session(session_key: str | None) -> Viewer:
    """What the session's user may see now; nothing once the session ended or its user was deactivated."""
    if not session_key:
        return NOBODY
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    return viewer_of(get_user(SimpleNamespace(session=session)))
