"""Nodes of other machines join the estate, and leave it: their agents' reports say that they are there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from dashboard import jobs
from dashboard.operations.models import NodeRow
from dashboard.operations.services import register_node
from dashboard.teams.models import User
from scheduler.model.errors import NotFound, WeirError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")


class NodeReports(WeirError):
    """A node is to be taken out of the estate whose agent still reports."""

    code = "node_reports"
    http_status = 409


def take_in_nodes(reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Register nodes that report and are not known, or have another number of slots by now; their names.

    This machine's own node is registered when the system starts: a report that an earlier start left must not undo it.
    """
    known = dict(NodeRow.objects.values_list("name", "slots"))
    found = {
        name: len(report.get("slots", ())) for name, report in reports.items()
        if name != settings.LOCAL_NODE and NAME.fullmatch(name)}
    changed = sorted(name for name, slots in found.items() if slots and known.get(name) != slots)
    for name in changed:
        register_node(name=name, slots=found[name])
    return changed


def take_out_node(*, name: str, actor: User | None = None) -> NodeRow:
    """Offer no slot of a node any more. What runs on it has to be removed or moved before, and its agent stopped.

    Raises
    ------
    NotFound
        There is no such node.
    NodeReports
        Its agent reports, and would bring it in again.
    NodeInUse
        Something runs on it.
    BrokerAway
        Nobody can tell whether its agent reports.
    """
    if not NodeRow.objects.filter(name=name).exists():
        raise NotFound(f"There is no node {name}.", remedy="`./weir node list` names those that there are.", node=name)
    reading = jobs.read_live((), {})
    if not reading.available:
        raise jobs.BrokerAway(reading.reason, remedy="Try again when it answers.")
    if name in reading.reports:
        raise NodeReports(
            f"The agent of {name} reports still.", remedy="Stop it, wait 15 seconds, and try again.", node=name)
    return register_node(name=name, slots=0, actor=actor)
