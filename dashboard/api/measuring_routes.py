"""The routes of what there is to measure, and of what is known of a profile besides. ``docs/api.md`` describes them."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from dashboard.api.answers.common import Page, row_of
from dashboard.api.answers.profiles import Feed, ObservationAnswer, ProfileAnswer
from dashboard.api.profile_routes import profile_row
from dashboard.api.schemas import page_of
from dashboard.operations.live_view.nodes import current_machine
from dashboard.profiles import selectors
from dashboard.profiles.measurable import unmeasured
from dashboard.profiles.models import ObservationRow
from dashboard.profiles.targets import feeds_for, installed

router = Router()


@router.get("/feeds", response=list[Feed])
def feeds(request: HttpRequest, type: str) -> list[dict[str, Any]]:
    """The feeds for measurements of a task type: by keys, the first being what it is fed with unless named."""
    return [row_of(Feed, way) for way in feeds_for(installed(type))]


@router.get("/profiles/unmeasured", response=list[str])
def not_measured(request: HttpRequest) -> list[str]:
    """Types of running tasks that the caller may know of and of which no profile is in use, by name."""
    return unmeasured(request.viewer)


@router.get("/profiles/{uuid:profile_id}/seen", response=Page[ObservationAnswer])
def seen(request: HttpRequest, profile_id: UUID, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """The observations of running bundles over the last day, newest first."""
    observations = selectors.profile(request.viewer, profile_id).observations.order_by("-at", "pk")
    return page_of(observations, page, seen_row)


@router.get("/profiles/{uuid:profile_id}/history", response=Page[ProfileAnswer])
def history(request: HttpRequest, profile_id: UUID, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """All profiles of the same type, config, machine and team, newest first: those that were superseded, too."""
    entries = selectors.history_of(selectors.profile(request.viewer, profile_id))
    row = partial(profile_row, machine=current_machine())
    return page_of(entries.select_related("team").prefetch_related("points"), page, row)


def seen_row(row: ObservationRow) -> dict[str, Any]:
    """An observation as the API gives it."""
    return row_of(ObservationAnswer, row)
