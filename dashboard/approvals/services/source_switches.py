"""Switches that policy sources ask for: Weir's own proposals, which nobody is asked about, for policies are approved. A
freeze and windows hold for them as for any plan.

What somebody has set by hand stays on for as long as they said, whatever sources want (`alternate_holds`).
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
from dashboard.operations.policy_reader import hold_of, users_of
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate

log = structlog.get_logger(__name__)
APART = timedelta(seconds=10)  # two proposals for one task at least


def propose_switches(wanted: Iterable[WantedSwitch], estate: Estate, *, at: datetime) -> list[Proposal]:
    """Propose what sources want, where nobody holds the task; which proposals were made."""
    made = []
    for switch in wanted:
        try:
            made.append(_propose(switch, estate, at))
        except WeirError as error:  # of this one alone, and the next second tries again
            log.info("switch_not_proposed", task=switch.task, code=error.code)
    return [proposal for proposal in made if proposal is not None]


def _propose(switch: WantedSwitch, estate: Estate, at: datetime) -> Proposal | None:
    names = users_of(estate, switch.task)
    hold = hold_of(switch.task, at=at)
    if not names or (hold is not None and not (switch.warmed and switch.alternate == hold.alternate)):
        return None
    dataflow, task = names[0]
    switches = Proposal.objects.filter(
        dataflow_id=dataflow, plan__options__task=task, plan__options__has_key="alternate")
    if switches.filter(created__gt=at - APART).exists():
        return None
    with audited(actor=None, verb="dataflow.switch_by_guard") as audit:
        lock_generation()
        record = DataflowRecord.objects.select_related("team").filter(pk=dataflow, status=dataflows.RUNNING).first()
        if record is None or switches.open().exists() or Proposal.objects.filter(
                dataflow=dataflow).under_way().exists():
            audit.nothing_changed()
            return None
        proposal = open_switch(audit, record, {
            "task": task, "alternate": switch.alternate, "reason": switch.because, "source": switch.source,
            **({"warmed": True} if switch.warmed else {})})
        audit.subject, audit.team = record, record.team
        audit.details = {
            "proposal": str(proposal.pk), "task": task, "alternate": switch.alternate, "source": switch.source}
        return proposal
