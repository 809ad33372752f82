"""The ASGI application: HTTP through Django, ``/ws/live`` through the live consumer."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()  # sets Django up, before anything imports a model

from channels.routing import ProtocolTypeRouter  # noqa: E402

from dashboard.config.bodies import BoundedBodies  # noqa: E402
from dashboard.config.process_warming import warm_up  # noqa: E402
from dashboard.core.garbage_collection import settle  # noqa: E402
from dashboard.live.websocket_routes import websockets  # noqa: E402

warm_up()
settle()
application = ProtocolTypeRouter({"http": BoundedBodies(http), "websocket": websockets})
