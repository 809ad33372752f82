"""Latency limits of a dataflow: chosen, and what other choices would cost."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from dashboard.catalog import selectors as catalog
from dashboard.catalog.document_checks import limits_for
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.controllers.latency_told import latency_prices_told
from dashboard.operations.latency_control.latency_view import limits_in_words
from dashboard.pages import flash
from dashboard.plans.latency_remarks import limit_remarks


@require_POST
def dataflow_latency(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Choose how late a dataflow's events may be."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    written = None if request.POST.get("as") == "document" else request.POST.get("latency", "")
    flash.attempt(
        request, lambda: choose_latency(
            actor=request.user, dataflow_id=record.pk,
            limits=None if written is None else limits_for(record, written)),
        text=_chosen_in_words,
        code="latency")
    return redirect("dataflow", dataflow_id)


def _chosen_in_words(record: DataflowRecord) -> str:
    """The limits that hold now, and what follows from them."""
    follows = "Batches follow within seconds; this page shows the result." if record.status == RUNNING else \
        "It counts while the dataflow runs."
    return " ".join([f"{record.name}: {limits_in_words(record)}.", *(limit_remarks(record) or [follows])])


@require_safe
def dataflow_latency_prices(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The cost of the dataflow's batches at other limits; with ``scheduled=1`` as by a schedule."""
    return JsonResponse(
        latency_prices_told(request.viewer, dataflow_id, scheduled=request.GET.get("scheduled") == "1"))
