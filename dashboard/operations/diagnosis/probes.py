"""Probes for load balancers and orchestrators: whether the process lives, and whether it can serve."""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.operations.diagnosis.health import FULL, health, site_disk
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.findings import verdict
from dashboard.operations.live_view.telemetry import EVERYTHING


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
    the estate's page shows.
    """
    checks = {"database": _database(), "disk": _disk(), **_broker()}
    if checks["database"] == "ok":
        view = view_for(EVERYTHING)
        checks["estate"] = verdict(
            (finding.severity for finding in health(view)), is_heard=view.reading.available).state
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


def _broker() -> dict[str, str]:
    try:
        if jobs.broker_is_full():
            return {"broker": FULL, "worker": "unknown"}
        live = jobs.read_live((), {})
        is_alone = jobs.lacks_replica(jobs.broker(settings.REDIS_URL))
        return {
            "broker": FULL if live.broker_memory.is_crowded() else "alone" if is_alone else "ok",
            "worker": "ok" if jobs.worker_is_heard() else "away",
            "walls": "missing" if any(report.unwalled for report in live.reports.values()) else "ok"}
    except redis.RedisError:
        return {"broker": "away", "worker": "unknown"}
