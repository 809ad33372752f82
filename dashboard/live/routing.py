"""WebSocket routes: same origin only, with the session's cookie."""

from __future__ import annotations

from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, WebsocketDenier
from channels.sessions import SessionMiddlewareStack
from django.urls import path, re_path

from dashboard.live.consumer import live

websockets = AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter([
    path("ws/live", live),
    re_path(r"", WebsocketDenier.as_asgi()),
])))
