"""Bills: what the viewer's dataflows paid, what each of their tasks did, over time and as files."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.bills import selectors
from dashboard.bills.dataflow_costs import cost_of
from dashboard.bills.exports import bill_csv, bills_csv
from dashboard.bills.periods import NAMES, Period, period_of
from dashboard.bills.price_history import lists_between
from dashboard.operations.latency_control.latency_view import limits_in_words
from dashboard.pages.billing import by_team, money, share_of, shown
from dashboard.pages.plots import cost_figure
from dashboard.teams import selectors as teams

PER_PAGE = 50


@require_safe
def bills(request: HttpRequest) -> HttpResponse:
    """A row for each dataflow whose bill is the viewer's."""
    period, team = _period(request), _team(request)
    listing = selectors.bills(request.viewer, period, team=team)
    rows, whole = shown([row.charge for row in listing])
    sums = by_team(listing)
    team_rows, _ = shown([charge for _, charge in sums])
    page = Paginator(list(zip(listing, rows, strict=True)), PER_PAGE).get_page(request.GET.get("page"))
    idle = selectors.nobodys(request.viewer, period)
    return render(request, "bills.html", {
        "period": period, "periods": _periods(period), "team_chosen": team, "teams": teams.teams(request.viewer),
        "page": page, "rows": [
            {"dataflow": bill.dataflow, "limit": limits_in_words(bill.dataflow), "shown": row}
            for bill, row in page.object_list],
        "team_rows": [{"team": name, "shown": row} for (name, _), row in zip(sums, team_rows, strict=True)],
        "whole": whole, "idle": idle, "idle_cost": money(idle.pays_nanos), "prices": _prices(period),
        "query": f"{period.query}&team={team}" if team else period.query,
        "changes": selectors.changes_by_others(request.viewer, period, team=team)[:20],
    })


@require_safe
def bill(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """One dataflow's bill, task by task."""
    period = _period(request)
    record, bill = selectors.bill_of(request.viewer, dataflow_id, period)
    rows, whole = shown([row.charge for row in bill])
    return render(request, "bill.html", {
        "record": record, "period": period, "periods": _periods(period), "whole": whole,
        "rows": [
            {"bill": task, "shown": row, "share": share_of(task)} for task, row in zip(bill, rows, strict=True)],
        "prices": _prices(period), "query": period.query, "limit": limits_in_words(record),
        "cost": cost if (cost := cost_of(request.viewer, dataflow_id)) and cost.pays else None,
    })


@require_safe
def bills_plots(request: HttpRequest) -> JsonResponse:
    """A Plotly figure of cost over time: paid, alone, and of what is paid for latency."""
    prices = _prices(period := _period(request))
    history = selectors.cost_history(request.viewer, period, team=_team(request))
    return JsonResponse({"cost": cost_figure(history, currency=prices["currency"])})


@require_safe
def bill_plots(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The same of one dataflow."""
    prices = _prices(period := _period(request))
    history = selectors.cost_history(request.viewer, period, dataflow_id=dataflow_id)
    return JsonResponse({"cost": cost_figure(history, currency=prices["currency"])})


@require_safe
def bills_export(request: HttpRequest) -> HttpResponse:
    """The bills as a CSV file."""
    period, team = _period(request), _team(request)
    listing = selectors.bills(request.viewer, period, team=team)
    return _file(bills_csv(listing, period=period, currency=_prices(period)["currency"]), "bills", period)


@require_safe
def bill_export(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """One bill as a CSV file."""
    period = _period(request)
    _, bill = selectors.bill_of(request.viewer, dataflow_id, period)
    return _file(bill_csv(bill, period=period, currency=_prices(period)["currency"]), "bill", period)


def _period(request: HttpRequest) -> Period:
    texts = {name: request.GET.get(name, "").strip() for name in ("period", "from", "to")}
    return period_of(texts["period"], first=texts["from"], last=texts["to"], now=timezone.now())


def _team(request: HttpRequest) -> str:
    """The chosen team's short name; ``NotFound`` where it is none of the viewer's."""
    slug = request.GET.get("team", "").strip()
    return teams.team(request.viewer, slug).slug if slug else ""


def _periods(period: Period) -> list[dict[str, Any]]:
    return [
        {"name": name, "title": title, "current": name == period.name}
        for name, title in NAMES.items() if name != "custom"]


def _prices(period: Period) -> dict[str, Any]:
    """The prices of a period: the newest, and whether they, or their currency, changed in it."""
    lists = lists_between(period.since, period.until)
    since, newest = lists[-1]
    return {
        "since": since, "currency": newest.currency, "slot_hour": newest.core_hour,
        "sizes": [{"node": node, "name": size.name, "slot_hour": size.slot_hour} for node, size in newest.sizes],
        "memory_gb_hour": newest.memory_gb_hour, "traffic_gb": newest.traffic_gb,
        "spill_gb_hour": newest.spill_gb_hour, "changed": len(lists) > 1,
        "currencies": sorted({prices.currency for _, prices in lists}),
    }


def _file(text: str, name: str, period: Period) -> HttpResponse:
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}-{period.first}-{period.last}.csv"'
    return response
