"""Probes for load balancers and orchestrators: whether the process lives, and whether it can serve."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.operations.diagnosis.health import FULL, health, site_disk
from dashboard.operations.live_view.estate_view import SharedViews
from dashboard.operations.live_view.findings import verdict
from dashboard.operations.live_view.telemetry import EVERYTHING

_VIEWS = SharedViews(for_s=1.0)


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> JsonResponse:
    """``{"status": "ok"}`` as long as the process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 where the site can serve, else 503; ``checks`` says of database, disk, broker and worker how each is.

    Without a broker or a worker the site serves what it knows and takes in what it can, so that these make no 503. Nor
    does a node that cannot wall its processes off, of which ``walls`` says ``missing``. ``estate`` is the verdict that
    the estate's page shows. Anybody may ask, and as often as they like: what makes no 503 is up to a second old.
    """
    checks = {"database": _database(), "disk": _disk()}
    if checks["database"] == "ok":
        view = _VIEWS.view_for(EVERYTHING)
        severities = [finding.severity for finding in health(view)]
        checks |= _broker(view.reading) | {"estate": verdict(severities, is_heard=view.reading.available).state}
    else:
        checks |= _broker(jobs.read_live((), {}))
    is_ready = checks["database"] == checks["disk"] == "ok"
    return JsonResponse({"ready": is_ready, "checks": checks}, status=200 if is_ready else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "away"
    return "ok"


def _disk() -> str:
    try:
        finding = site_disk()
    except OSError:
        return "away"
    return FULL if finding is not None and finding.state == FULL else "ok"


def _broker(live: jobs.LiveReading) -> dict[str, str]:
    if not live.available:
        return {"broker": "away", "worker": "unknown"}
    if live.broker_full:
        return {"broker": FULL, "worker": "unknown"}
    return {
        "broker": FULL if live.broker_memory.is_crowded() else "alone" if live.broker_alone else "ok",
        "worker": "ok" if live.worker else "away",
        "walls": "missing" if any(report.unwalled for report in live.reports.values()) else "ok"}
