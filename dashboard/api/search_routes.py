"""The routes of searches in running streams. ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status
from pydantic import Field

from dashboard.api.answers.looks import SearchBegun, StreamSearch
from dashboard.api.request_schema import RequestSchema
from dashboard.explorer import stream_searches
from scheduler.model.bounds import GUARD_CHARACTERS

router = Router()


class SearchIn(RequestSchema):
    """The events of a stream to search: a condition over its columns, for how many seconds, and how many of them are
    kept at most."""

    where: str = Field(min_length=1, max_length=GUARD_CHARACTERS.most)
    seconds: int = Field(stream_searches.SECONDS, ge=1, le=stream_searches.MOST_SECONDS)
    count: int = Field(stream_searches.EVENTS, ge=1, le=stream_searches.MOST_EVENTS)


@router.post("/estate/tasks/{str:task_id}/searches", response={202: SearchBegun})
def search_begin(request: HttpRequest, task_id: str, body: SearchIn) -> Status:
    """Search a running task's stream for events that meet a condition; a later search of the same user ends it."""
    return Status(202, {"id": stream_searches.begin_search(
        actor=request.user, task_id=task_id, where=body.where, seconds=body.seconds, count=body.count)})


@router.get("/estate/searches/{str:search_id}", response=StreamSearch)
def search(request: HttpRequest, search_id: str) -> dict[str, Any]:
    """The results of a search so far; it looks at what came since the last question."""
    return asdict(stream_searches.search(request.viewer, search_id))


@router.delete("/estate/searches/{str:search_id}", response={204: None})
def search_end(request: HttpRequest, search_id: str) -> Status:
    """End a search."""
    stream_searches.end_search(request.viewer, search_id)
    return Status(204, None)
