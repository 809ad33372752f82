"""WebSocket routes: same origin only, with the session's cookie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.urls import path, re_path

from dashboard.live.consumer import live


class SameOrigin:
    """Refuses pages of another origin, another port of this host included, as Django's CSRF check does for forms."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application
        self._denier = WebsocketDenier.as_asgi()

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        application = self._application if _is_same_origin(dict(scope["headers"])) else self._denier
        await application(scope, receive, send)


def _is_same_origin(headers: dict[bytes, bytes]) -> bool:
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:  # no address at all
        return False
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    host = headers.get(b"host", b"").decode("latin-1").lower().removesuffix(usual)
    return bool(host) and parts.netloc.removesuffix(usual) == host


websockets = SameOrigin(AllowedHostsOriginValidator(CookieMiddleware(URLRouter([
    path("ws/live", live),
    re_path(r"", WebsocketDenier.as_asgi()),
]))))
