"""Permissions to know dataflows: shared ones, and the private ones of the own teams."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from dashboard.catalog.models import DataflowRecord
from dashboard.core.one_reading import once
from dashboard.teams.permissions import NOBODY, Viewer
from scheduler.model.errors import NotFound


def visible_to(viewer: Viewer, *, through: str = "") -> Q:
    """A filter for what a viewer may know of; ``through`` is a relation's path to the dataflow (``dataflow__``)."""
    if viewer.superuser:
        return Q()
    if viewer.user_id == NOBODY.user_id:
        return Q(pk__in=[])
    return Q(**{f"{through}visibility": "shared"}) | Q(**{f"{through}team_id__in": viewer.team_ids})


def may_know_of(viewer: Viewer, record: DataflowRecord) -> bool:
    """The same of one record that is at hand: whether that filter lets it through."""
    if viewer.superuser:
        return True
    return viewer.user_id != NOBODY.user_id and (not record.private or viewer.sees_private_of(record.team_id))


def dataflow_for(viewer: Viewer, dataflow_id: UUID | str) -> DataflowRecord:
    """The dataflow, or ``NotFound``: whether it is absent or hidden looks the same."""
    record = None
    if is_uuid(dataflow_id):
        record = once(("dataflow", viewer.user_id, viewer.scope, str(dataflow_id)), lambda: (
            DataflowRecord.objects.select_related("team", "author").filter(visible_to(viewer), pk=dataflow_id).first()))
    if record is None:
        raise NotFound("There is no such dataflow.", remedy="See the list of dataflows for those that you may read.")
    return record


def is_uuid(value: UUID | str) -> bool:
    """True if this can be a record's id at all."""
    if isinstance(value, UUID):
        return True
    try:
        return str(UUID(value)) == value.lower()
    except ValueError:
        return False
