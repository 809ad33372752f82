"""The audit trail: who did what, when."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.audit import selectors as trail

PER_PAGE = 50


@require_safe
@login_required
def audit(request: HttpRequest) -> HttpResponse:
    """The viewer's part of the trail, newest first, searchable by verb, person and subject."""
    entries = trail.entries_for(request.viewer)
    search = request.GET.get("q", "").replace("\0", "").strip()
    for word in search.split()[:6]:
        entries = entries.filter(
            Q(verb__icontains=word) | Q(actor__username__icontains=word) | Q(subject_type__icontains=word)
            | Q(subject_id__istartswith=word) | Q(team__name__icontains=word))
    page = Paginator(entries, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "audit.html", {"page": page, "search": search})
