"""``POST /ingest/<team>/<name>``: events for a live source, with the source's own token and no session."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from dashboard.core.http_errors import BadInput, http_status
from dashboard.operations.live_view.ingest import AtRest, TooFull
from dashboard.operations.live_view.ingest import ingest as take_in
from scheduler.model.bounds import INGEST_KEY
from scheduler.model.errors import WeirError

WAIT_S = {TooFull: 1, AtRest: 10}


@csrf_exempt  # who posts has no cookie: the token is the whole proof
@require_POST
def ingest(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """Take events in: 202 with how many; 401, 409, 413, 422, 429 or 503 with what to do."""
    try:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        taken = take_in(
            f"{team}/{name}", token=token.strip() if scheme.lower() == "bearer" else "", body=request.read(),
            content_type=request.headers.get("Content-Type", ""), key=_key(request))
    except WeirError as error:
        response = JsonResponse(error.as_dict(), status=http_status(error))
        if type(error) in WAIT_S:
            response["Retry-After"] = str(WAIT_S[type(error)])
        return response
    return JsonResponse(asdict(taken), status=202)


def _key(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > INGEST_KEY.most:
        raise BadInput(f"The Idempotency-Key is over {INGEST_KEY.most} characters.", remedy="Use a shorter one.")
    return key
