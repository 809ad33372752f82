"""Permissions to read bills: the own teams', or everybody's as administrator of the installation."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound


def billed_to(viewer: Viewer) -> Q:
    """A filter of usage: the parts of dataflows whose bills a viewer may read."""
    return Q(dataflow__isnull=False) if viewer.superuser else Q(dataflow__team_id__in=viewer.team_ids)


def bill_for(viewer: Viewer, dataflow_id: UUID | str) -> DataflowRecord:
    """The dataflow, where its bill is the viewer's; ``NotFound`` where it is absent, hidden or another team's."""
    try:
        record = dataflow_for(viewer, dataflow_id)
    except NotFound:
        record = None
    if record is None or not (viewer.superuser or record.team_id in viewer.roles):
        raise NotFound(
            "There is no such bill.", remedy="A dataflow's bill is for its own team: see the bills of yours.")
    return record
