"""Nodes join the estate by their agents' reports, and leave it; how they hold their slots to cores."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Avg, Sum

from dashboard import jobs
from dashboard.operations.models import NodeRow
from dashboard.operations.services import register_node
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.model.errors import NotFound, WeirError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")


class NodeReports(WeirError):
    """A node is to be taken out of the estate whose agent still reports."""

    code = "node_reports"


# Why the slots of a node are not held to cores of their own, by how its agent says that they are held. One that says
# nothing, or `own`, is absent.
UNPINNED = {
    "few_cores": "it has no more cores than slots, and WEIR_PIN is auto",
    "shared": "it has fewer cores than slots, so that slots share them",
    "never": "WEIR_PIN is never",
    "cluster": "a Spark cluster runs their queries",
}


def current_machine() -> str:
    """The class of machine that offers the most slots, by its agent's report; empty where none has reported yet."""
    classes = NodeRow.objects.exclude(machine="").values("machine").annotate(offered=Sum("slots"))
    return classes.order_by("-offered", "machine").values_list("machine", flat=True).first() or ""


def current_speed() -> float | None:
    """The mean speed of the cores of `current_machine` over its nodes; None where no agent has looked yet."""
    return NodeRow.objects.filter(machine=current_machine()).aggregate(speed=Avg("speed"))["speed"]


def unpinned(report: NodeReport | None) -> str:
    """The reason why the slots of a node that reports this have no cores of their own; empty where they have, or
    unknown."""
    return "" if report is None else UNPINNED.get(report.pinning, "")


def pinning_remarks(names: Iterable[str]) -> list[str]:
    """The remarks of a plan with slots of these nodes on how they hold them to cores, as they report now."""
    reports = jobs.read_live((), {}).reports
    node_reports = {name: unpinned(reports.node(name)) for name in sorted(set(names))}
    return [
        f"The slots of {name} are not pinned to cores of their own ({cause}): other work on the machine, and other "
        "slots, may take CPU that is predicted for them." for name, cause in node_reports.items() if cause]


def take_in_nodes(reports: Reports) -> list[str]:
    """Register nodes that report and are not known, or have another number of slots by now; their names.

    This machine's own node is registered when the system starts: a report that an earlier start left must not undo it.
    """
    slots_before = dict(NodeRow.objects.values_list("name", "slots"))
    node_rows = {
        name: len(report.slots) for name, report in reports.items()
        if name != settings.LOCAL_NODE and NAME.fullmatch(name)}
    changed = sorted(name for name, slots in node_rows.items() if slots and slots_before.get(name) != slots)
    for name in changed:
        register_node(name=name, slots=node_rows[name])
    return changed


def take_out_node(*, name: str) -> NodeRow:
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
    return register_node(name=name, slots=0)
