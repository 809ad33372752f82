"""``/metrics``: for who has the token, or, where none is set, for programs of this machine."""

from __future__ import annotations

import hmac
import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from dashboard.core.errors import LoginRequired, response_for
from dashboard.metrics.collecting import exposition

_FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-Ip")


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """What Prometheus scrapes."""
    if not _may_read(request):
        return response_for(request, LoginRequired(
            "Metrics are for who has the token.",
            remedy="Send WEIR_METRICS_TOKEN as a bearer token; without one, ask from the site's own machine."))
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN:
        sent = request.headers.get("Authorization", "").encode()
        return hmac.compare_digest(sent, f"Bearer {settings.METRICS_TOKEN}".encode())
    if any(header in request.headers for header in _FORWARDED):  # somebody else's, by a proxy of this machine
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
