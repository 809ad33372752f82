"""``/metrics``: for who has the token. Where none is set it is nobody's.

A proxy on this machine that sets no header of its own asks exactly as a program of this machine does, so where a
request comes from says nothing of who reads the answer, which names private dataflows.
"""

from __future__ import annotations

import hmac

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from dashboard.core.http_errors import LoginRequired, response_for
from dashboard.metrics.metric_families import exposition


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics for Prometheus."""
    if not _may_read(request):
        return response_for(request, LoginRequired(
            "Metrics are for who has the token.",
            remedy="Set WEIR_METRICS_TOKEN for the site, and send it as a bearer token."))
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    sent = request.headers.get("Authorization", "").encode()
    return bool(settings.METRICS_TOKEN) and hmac.compare_digest(sent, f"Bearer {settings.METRICS_TOKEN}".encode())
