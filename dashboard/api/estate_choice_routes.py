"""The routes of choices for the whole estate: how intervals are chosen, and whether teams share slots.

``docs/api.md`` describes them.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Router

from dashboard.api.answers.estate_choices import PacingAnswer, TenancyAnswer
from dashboard.api.request_schema import RequestSchema
from dashboard.operations.estate_store.estate_choices import WayInForce
from dashboard.operations.estate_store.tenancy_choice import TENANCIES, TENANCY_CHOICE, TenancyKind, shared_slots
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE, PACINGS, PacingKind

router = Router()


class PacingIn(RequestSchema):
    """A choice of pacing; empty for what the installation says."""

    pacing: str


class TenancyIn(RequestSchema):
    """A choice of tenancy; empty for what the installation says."""

    tenancy: str


@router.get("/pacing", response=PacingAnswer)
def pacing(request: HttpRequest) -> dict[str, Any]:
    """The choice of pacing, and the alternatives."""
    return _pacing(PACING_CHOICE.in_force())


@router.put("/pacing", response=PacingAnswer)
def set_pacing(request: HttpRequest, body: PacingIn) -> dict[str, Any]:
    """Choose how the intervals of batches are chosen, for the whole estate; by an administrator."""
    return _pacing(PACING_CHOICE.choose(actor=request.user, name=body.pacing))


@router.get("/tenancy", response=TenancyAnswer)
def tenancy(request: HttpRequest) -> dict[str, Any]:
    """The choice of tenancy, the alternatives, and the slots that several teams share."""
    return _tenancy(TENANCY_CHOICE.in_force())


@router.put("/tenancy", response=TenancyAnswer)
def set_tenancy(request: HttpRequest, body: TenancyIn) -> dict[str, Any]:
    """Choose whether teams share slots, for the whole estate; by an administrator."""
    return _tenancy(TENANCY_CHOICE.choose(actor=request.user, name=body.tenancy))


def _pacing(now: WayInForce[PacingKind]) -> dict[str, Any]:
    return {"pacing": now.kind.name, "is_chosen": now.is_chosen, "ways": [asdict(kind) for kind in PACINGS.values()]}


def _tenancy(now: WayInForce[TenancyKind]) -> dict[str, Any]:
    return {
        "tenancy": now.kind.name, "is_chosen": now.is_chosen, "shared_slots": shared_slots(),
        "ways": [asdict(kind) for kind in TENANCIES.values()]}
