"""Every address of the site."""

from django.urls import include, path

from dashboard.api.ingest_view import ingest
from dashboard.api.routes import api
from dashboard.live.views import snapshot
from dashboard.metrics.views import metrics
from dashboard.operations.diagnosis.probes import healthz, readyz

urlpatterns = [
    path("api/", api.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("ingest/<slug:team>/<slug:name>", ingest, name="ingest"),
    path("live/snapshot", snapshot, name="live_snapshot"),
    path("", include("dashboard.pages.urls")),
]

handler400 = "dashboard.core.http_errors.bad_request"
handler403 = "dashboard.core.http_errors.permission_denied"
handler404 = "dashboard.core.http_errors.not_found"
handler500 = "dashboard.core.http_errors.server_error"
