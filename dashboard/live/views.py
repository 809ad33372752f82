"""The snapshot that a live page begins with."""

from __future__ import annotations

import json

import redis
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.http_errors import LoginRequired
from dashboard.live.hub import versions
from dashboard.live.live_protocol import build, require_known
from dashboard.live.state_versions import LiveView


@require_safe
@never_cache
def snapshot(request: HttpRequest) -> HttpResponse:
    """``{"topic", "seq", "state"}``; ``seq`` 0 where the broker is away."""
    if not request.user.is_authenticated:
        raise LoginRequired("Nobody is logged in.", remedy="Log in.")
    topic = request.GET.get("topic", "")
    # Permission comes first: a version that others of the scope watch must not answer for a topic that is gone.
    require_known(request.viewer, topic)
    try:
        seq, state = versions().newest(
            LiveView(topic, request.viewer.scope, lambda: build(request.viewer, topic)))
    except redis.RedisError:
        seq, state = 0, json.dumps(build(request.viewer, topic))
    # The state is text already: one that was written once serves all who ask within half a second.
    text = f'{{"topic": {json.dumps(topic)}, "seq": {seq}, "state": {state}}}'
    return HttpResponse(text, content_type="application/json")
