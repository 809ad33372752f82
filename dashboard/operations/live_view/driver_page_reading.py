"""Spark's own pages of a slot's driver, for administrators: a driver works for all teams with queries on its slot."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from dashboard import node_calls
from dashboard.operations.live_view.estate_view import view_for
from dashboard.teams.permissions import Viewer, require_superuser
from scheduler.contracts.driver_pages import DriverPage, DriverPageOrder, is_shown
from scheduler.model.errors import NotFound


def driver_page(viewer: Viewer, slot: str, path: str, query: Mapping[str, str]) -> DriverPage | None:
    """A page as Spark made it, or the reason why there is none; None if the slot's node does not answer.

    Parameters
    ----------
    slot : str
        A slot's name: ``<node>/<index>``.
    path, query
        One of the pages that are shown (`scheduler.contracts.driver_pages.SHOWN`), with its parameters.
    """
    require_superuser(viewer)
    view = view_for(viewer)
    if slot not in {slot_row.name for slot_row in view.estate.slots}:
        raise NotFound("There is no such slot.", remedy="See the slots that there are.")
    if not is_shown(path, query):
        raise NotFound("This page of Spark is not shown.", remedy="Begin at the slot's first page of Spark.")
    node, _, index = slot.rpartition("/")
    if view.node_report(node) is None:
        return None
    return node_calls.driver_page(DriverPageOrder(secrets.token_hex(16), node, index, path, dict(query)))
