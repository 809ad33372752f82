"""The routes of how intervals are chosen. ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from dashboard.api.answers.pacing import PacingAnswer
from dashboard.operations.pacing_choice import PACINGS, PacingInForce, choose_pacing, pacing_in_force

router = Router()


class PacingIn(Schema):
    """Which way; empty for what the installation says."""

    pacing: str


@router.get("/pacing", response=PacingAnswer)
def pacing(request: HttpRequest) -> dict[str, Any]:
    """How the intervals of batches are chosen, and the ways that there are."""
    return _row(pacing_in_force())


@router.put("/pacing", response=PacingAnswer)
def set_pacing(request: HttpRequest, body: PacingIn) -> dict[str, Any]:
    """Choose how the intervals of batches are chosen, for the whole estate; by an administrator."""
    return _row(choose_pacing(actor=request.user, name=body.pacing))


def _row(now: PacingInForce) -> dict[str, Any]:
    return {"pacing": now.kind.name, "is_chosen": now.is_chosen, "ways": [asdict(kind) for kind in PACINGS.values()]}
