"""The routes of logs. ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from dashboard.api.answers.site import ReadLog
from dashboard.operations.live_view.log_reading import INFO, LINES, MOST_LINES, LogQuestion, dataflow_log, process_log
from scheduler.contracts.logs import SEARCHED

router = Router()
Level = Literal["info", "warning", "error"]
MOST_MARK = 2_000  # characters


@router.get("/dataflows/{uuid:dataflow_id}/logs", response=ReadLog)
def of_dataflow(
    request: HttpRequest, dataflow_id: UUID, task: str = Query("", max_length=SEARCHED), level: Level = INFO,
    search: str = Query("", max_length=SEARCHED), count: int = Query(LINES, ge=1, le=MOST_LINES),
    after: str = Query("", max_length=MOST_MARK),
) -> dict[str, Any]:
    """The newest lines of the log of a dataflow, or of one of its tasks; with ``after`` of an answer those behind it.
    """
    return asdict(dataflow_log(request.viewer, dataflow_id, LogQuestion(level, search, count, after), task=task))


@router.get("/nodes/{str:node}/logs/{str:process}", response=ReadLog)
def of_process(
    request: HttpRequest, node: str, process: str, level: Level = INFO, search: str = Query("", max_length=SEARCHED),
    count: int = Query(LINES, ge=1, le=MOST_LINES), after: str = Query("", max_length=MOST_MARK),
) -> dict[str, Any]:
    """The newest lines of a process of a node: of a slot by its index, ``spare`` or ``connectors``; by an
    administrator."""
    return asdict(process_log(request.viewer, node, process, LogQuestion(level, search, count, after)))
