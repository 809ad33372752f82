"""The snapshot that a live page begins with."""

from __future__ import annotations

import redis
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.errors import LoginRequired
from dashboard.live.hub import versions
from dashboard.live.protocol import build


@require_safe
@never_cache
def snapshot(request: HttpRequest) -> JsonResponse:
    """``{"topic", "seq", "state"}``; ``seq`` 0 where the broker is away."""
    if not request.user.is_authenticated:
        raise LoginRequired("Nobody is logged in.", remedy="Log in.")
    topic = request.GET.get("topic", "")
    # Permission comes first: a version that others of the scope watch must not answer for a topic that is gone.
    state = build(request.viewer, topic)
    try:
        version = versions().refresh(topic, request.viewer.scope, lambda: state)
    except redis.RedisError:
        return JsonResponse({"topic": topic, "seq": 0, "state": state})
    return JsonResponse({"topic": topic, "seq": version.seq, "state": version.state})
