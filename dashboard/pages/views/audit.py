"""The audit trail: who did what, when; searched, of a person, of some days, and as a file."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.audit import selectors as trail
from dashboard.core.http_errors import BadInput

PER_PAGE = 50


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """The viewer's part of the trail, newest first."""
    chosen = _chosen(request)
    page = Paginator(trail.search(request.viewer, chosen), PER_PAGE).get_page(request.GET.get("page"))
    filters = {name: value for name, value in request.GET.items() if name in ("q", "person", "from", "to") and value}
    return render(request, "audit.html", {
        "page": page, "search": request.GET.get("q", "").strip(), "chosen": chosen, "is_filtered": bool(filters),
        "archived_until": trail.archived_until(), "people": trail.people(request.viewer), "query": urlencode(filters)})


@require_safe
def audit_export(request: HttpRequest) -> HttpResponse:
    """The chosen entries as a CSV file, newest first."""
    response = HttpResponse(
        trail.as_csv(trail.search(request.viewer, _chosen(request))), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return response


def _chosen(request: HttpRequest) -> trail.AuditFilter:
    def text(name: str) -> str:
        return request.GET.get(name, "").replace("\0", "").strip()

    return trail.AuditFilter(
        words=tuple(text("q").split()), person=text("person"), first=_day(text("from")), last=_day(text("to")))


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadInput(f"{text!r} is no day.", remedy="Give days as 2026-11-24.") from None
