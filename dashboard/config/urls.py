"""Every address of the site."""

from django.contrib.auth.decorators import login_not_required
from django.urls import include, path

from dashboard.api.ingest_view import ingest
from dashboard.api.routes import api
from dashboard.live.views import snapshot
from dashboard.metrics.views import metrics
from dashboard.operations.diagnosis.probes import healthz, readyz

urlpatterns = [
    path("api/", api.urls),
    path("healthz", login_not_required(healthz), name="healthz"),
    path("readyz", login_not_required(readyz), name="readyz"),
    path("metrics", login_not_required(metrics), name="metrics"),
    path("ingest/<slug:team>/<slug:name>", login_not_required(ingest), name="ingest"),
    path("live/snapshot", login_not_required(snapshot), name="live_snapshot"),
    path("", include("dashboard.pages.urls")),
]

handler400 = "dashboard.core.http_errors.bad_request"
handler403 = "dashboard.core.http_errors.permission_denied"
handler404 = "dashboard.core.http_errors.not_found"
handler500 = "dashboard.core.http_errors.server_error"
