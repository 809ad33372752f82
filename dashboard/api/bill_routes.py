"""The routes of bills. ``docs/api.md`` describes them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from dashboard.api import schemas
from dashboard.api.answers.site import BillAnswer, Bills
from dashboard.api.query_parameters import DAY, PeriodName
from dashboard.bills import selectors as bill_selectors
from dashboard.bills.periods import period_of
from dashboard.teams import selectors as teams

router = Router()


@router.get("/bills", response=Bills, by_alias=True)
def bills(
    request: HttpRequest, team: str = "", period: PeriodName = "", first: str = Query("", alias="from", **DAY),
    last: str = Query("", alias="to", **DAY),
) -> dict[str, Any]:
    """The use and the bills of the caller's dataflows in a period, together and one by one."""
    span = period_of(period, first=first, last=last, now=timezone.now())
    slug = teams.team(request.viewer, team).slug if team else ""
    return schemas.bills_row(bill_selectors.bills(request.viewer, span, team=slug), span)


@router.get("/bills/{uuid:dataflow_id}", response=BillAnswer, by_alias=True)
def bill(
    request: HttpRequest, dataflow_id: UUID, period: PeriodName = "", first: str = Query("", alias="from", **DAY),
    last: str = Query("", alias="to", **DAY),
) -> dict[str, Any]:
    """One dataflow's bill, task by task."""
    span = period_of(period, first=first, last=last, now=timezone.now())
    record, rows = bill_selectors.bill_of(request.viewer, dataflow_id, span)
    return schemas.bill_row(record, rows, span)
