"""Switches that guards ask for: Weir's own proposals, which nobody is asked about, for guards are approved with the
dataflow. A freeze and windows hold for them as for any plan.

An alternate that somebody has chosen by hand stays on for a while, whatever guards say.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from dashboard.approvals.models import Proposal
from dashboard.approvals.services.rearrangement_proposals import open_switch
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.guard_watches import WantedSwitch
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate

log = structlog.get_logger(__name__)
HELD_FOR = timedelta(hours=1)  # by whoever switches by hand
APART = timedelta(seconds=10)  # two proposals for one task at least


def propose_switches(wanted: Iterable[WantedSwitch], estate: Estate, *, at: datetime) -> list[Proposal]:
    """Propose what guards want, where nothing holds the task; which proposals were made."""
    made = []
    for switch in wanted:
        try:
            made.append(_propose(switch, estate, at))
        except WeirError as error:  # of this one alone, and the next second tries again
            log.info("switch_not_proposed", task=switch.task, code=error.code)
    return [proposal for proposal in made if proposal is not None]


def held_until(names: Iterable[tuple[str, str]], *, at: datetime) -> datetime | None:
    """Until when a dynamic task stays as somebody has set it by hand; None where guards decide.

    Parameters
    ----------
    names : iterable of (str, str)
        The dataflows that use it, by id, and its name in each.
    """
    by_hand = [
        proposal.finished_at for dataflow, task in names
        for proposal in _switches(dataflow, task).filter(author__isnull=False, finished_at__gt=at - HELD_FOR)]
    return max(by_hand, default=at - HELD_FOR) + HELD_FOR if by_hand else None


def users_of(estate: Estate, task_id: str) -> list[tuple[str, str]]:
    """The dataflows that use a running task, by id, and its name in each; those that work first."""
    names = [
        (entry.paused, dataflow, name) for dataflow, entry in estate.submitted.items()
        for name, running in entry.running.items() if running == task_id]
    return [(dataflow, name) for _, dataflow, name in sorted(names)]


def _switches(dataflow: str, task: str):
    return Proposal.objects.filter(
        dataflow_id=dataflow, plan__options__task=task, plan__options__has_key="alternate")


def _propose(switch: WantedSwitch, estate: Estate, at: datetime) -> Proposal | None:
    names = users_of(estate, switch.task)
    if not names or held_until(names, at=at) is not None:
        return None
    dataflow, task = names[0]
    if _switches(dataflow, task).filter(created__gt=at - APART).exists():
        return None
    with audited(actor=None, verb="dataflow.switch_by_guard") as audit:
        lock_generation()
        record = DataflowRecord.objects.select_related("team").filter(pk=dataflow, status=dataflows.RUNNING).first()
        mine = Proposal.objects.filter(dataflow=dataflow)
        if record is None or mine.open().exists() or mine.under_way().exists():
            audit.nothing_changed()
            return None
        proposal = open_switch(audit, record, {
            "task": task, "alternate": switch.alternate, "reason": switch.because, "guard": True})
        audit.subject, audit.team = record, record.team
        audit.details = {"proposal": str(proposal.pk), "task": task, "alternate": switch.alternate}
        return proposal
