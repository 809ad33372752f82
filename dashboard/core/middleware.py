"""Middleware: the Content-Security-Policy, limits on requests, and errors as HTTP."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import is_valid_path
from django.utils.cache import patch_vary_headers
from django.utils.http import escape_leading_slashes

from dashboard.core.http_errors import (
    BadInput,
    DatabaseAway,
    DatabaseBusy,
    DiskFull,
    InternalError,
    MethodNotAllowed,
    as_weir_error,
    response_for,
    wants_json,
)
from scheduler.model.errors import WeirError

log = structlog.get_logger(__name__)
PROGRAMS = ("/api/", "/live/", "/ingest/", "/static/", "/metrics")
UTF_8 = ("utf-8", "utf8")
GetResponse = Callable[[HttpRequest], HttpResponse]

# The hash is that of the empty string: Plotly inserts one empty <style> and fills it through the CSSOM.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


class ContentSecurityPolicy:
    """A strict policy on every response: scripts, styles and connections of this site only, and no workers."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", policy())
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response


def policy(*, forms_to: str = "") -> str:
    """The policy's text. ``connect-src 'self'`` covers the WebSocket of the same host.

    ``forms_to`` is an origin to which a form may lead besides.
    """
    return "; ".join((
        "default-src 'none'", "script-src 'self'", f"style-src 'self' {EMPTY_STYLE}",
        "img-src 'self' data: blob:", "font-src 'self'", "connect-src 'self'", "worker-src 'none'",
        "manifest-src 'self'", "base-uri 'none'", f"form-action 'self' {forms_to}".rstrip(), "frame-ancestors 'none'",
        "object-src 'none'",
    ))


class NotStored:
    """Lets no cache keep what a view answers, unless the view says so: who logs out leaves nothing behind."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class RequestLimits:
    """Refuses what no view should see: NUL in an address, and forms that say they are no UTF-8. Bodies have their
    bounds before Django."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        error = _refusal(request)
        return self.get_response(request) if error is None else response_for(request, error)


def _refusal(request: HttpRequest) -> WeirError | None:
    if "\0" in request.path or any("\0" in text for pair in request.GET.lists() for text in (pair[0], *pair[1])):
        return BadInput("The address holds a NUL character.", remedy="Remove it.")
    if request.content_type == "multipart/form-data" and (request.encoding or "utf-8").lower() not in UTF_8:
        # Python has encodings that are of no text, such as base64, by which Django would fail.
        return BadInput("The form is not in UTF-8.", remedy="Send it in UTF-8.")
    return None


class Slashes:
    """Leads who looks for a page with a slash too few or too many to the page; addresses of programs stay exact."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 404 and (page := _page_meant(request)):
            return HttpResponsePermanentRedirect(page)
        return response


def _page_meant(request: HttpRequest) -> str | None:
    """The address of the page, where what was asked for is none but for its last slash."""
    path = request.path_info
    if request.method not in ("GET", "HEAD") or path.startswith(PROGRAMS) or is_valid_path(path):
        return None
    other_path = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    if not is_valid_path(other_path):
        return None
    query = request.META.get("QUERY_STRING", "")
    return escape_leading_slashes(
        f"{request.META.get('SCRIPT_NAME', '')}{quote(other_path)}{'?' if query else ''}{query}")


class Errors:
    """Turns exceptions of views into responses, and bare 404 and 405 responses into the one error shape."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and not response.headers.get("Content-Type", "").startswith("application/json"):
            allowed = response.headers.get("Allow", "")
            response = response_for(request, MethodNotAllowed(
                f"{request.method} is not allowed here.", remedy=f"Use {allowed}.", allowed=allowed.split(", ")))
            response["Allow"] = allowed
        if wants_json(request):
            patch_vary_headers(response, ("Accept",))
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer what a user can act on; let Django log and report anything else."""
        error = as_weir_error(exception)
        if isinstance(error, InternalError) and not isinstance(exception, WeirError):
            return None
        if isinstance(error, DiskFull | DatabaseAway | DatabaseBusy):
            log.error(error.code, path=request.path, error=str(exception))
        return response_for(request, error)
