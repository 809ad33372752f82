"""The routes of named savepoints. ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Router, Status

from dashboard.api.answers.site import SavepointsOfDataflow
from dashboard.api.request_schema import RequestSchema
from dashboard.approvals import services
from dashboard.approvals.savepoints_told import savepoints_told

router = Router()


class SavepointIn(RequestSchema):
    """A savepoint's name, which no other of the team has, and what it is for; each on one line."""

    name: str = Field(min_length=1, max_length=80)
    note: str = Field("", max_length=300)


@router.get("/dataflows/{uuid:dataflow_id}/savepoints", response=SavepointsOfDataflow)
def savepoints(request: HttpRequest, dataflow_id: UUID) -> dict[str, Any]:
    """The named savepoints of a dataflow, how many its team may have, what the next one would take, and why none can
    be taken now."""
    return asdict(savepoints_told(request.viewer, dataflow_id))


@router.post("/dataflows/{uuid:dataflow_id}/savepoints", response={202: SavepointsOfDataflow})
def take(request: HttpRequest, dataflow_id: UUID, savepoint: SavepointIn) -> Status:
    """Take a savepoint of a running dataflow under a name: 202, and its state tells what comes of it."""
    services.take_savepoint(
        actor=request.user, dataflow_id=dataflow_id, name=savepoint.name, note=savepoint.note)
    return Status(202, savepoints(request, dataflow_id))


@router.delete("/dataflows/{uuid:dataflow_id}/savepoints/{str:savepoint_id}", response=SavepointsOfDataflow)
def delete(request: HttpRequest, dataflow_id: UUID, savepoint_id: str) -> dict[str, Any]:
    """Delete a savepoint and what its node keeps of it; refused while a submission waits to begin from it."""
    services.delete_savepoint(actor=request.user, dataflow_id=dataflow_id, savepoint_id=savepoint_id)
    return savepoints(request, dataflow_id)
