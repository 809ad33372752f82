"""The ASGI application: HTTP through Django, ``/ws/live`` through the live consumer."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()  # sets Django up, before anything imports a model

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from dashboard import jobs  # noqa: E402
from dashboard.config.bodies import BoundedBodies  # noqa: E402
from dashboard.core.garbage_collection import settle  # noqa: E402
from dashboard.live.websocket_routes import websockets  # noqa: E402

# Nobody waits for these at a first visit: pages, the task library (a SQL parser alone takes half a second), samples.
_ = get_resolver().url_patterns
jobs.task_types()
jobs.samples()
settle()
application = ProtocolTypeRouter({"http": BoundedBodies(http), "websocket": websockets})
