"""Switches that policy sources ask for: Weir's own proposals, which nobody is asked about, for policies are approved. A
freeze and windows hold for them as for any plan.

What is wanted of one dataflow at the same time is one plan, so that its tasks that switch in waves do so in one wave. A
task that several dataflows use switches by whichever of them works and has no other plan under way.

What somebody has set by hand stays on for as long as they said, whatever sources want (`alternate_holds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import itemgetter

import structlog
from django.db.models import Q

from dashboard.approvals.models import Proposal
from dashboard.approvals.services.rearrangement_proposals import open_switch
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.policies.policy_reader import hold_of, users_of
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate

log = structlog.get_logger(__name__)
APART = timedelta(seconds=10)  # two proposals for one task at least


def propose_switches(wanted_switches: Iterable[WantedSwitch], estate: Estate, *, at: datetime) -> list[Proposal]:
    """Propose what sources want, where nobody holds the task; which proposals were made."""
    switches = {switch.task: switch for switch in wanted_switches}
    dataflow_names = {task: names for task, switch in switches.items() if (names := _names(switch, estate, at))}
    made = []
    while open_to := Counter(
            (dataflow, switches[task].source, switches[task].warmed)
            for task, names in dataflow_names.items() for dataflow in names):
        (dataflow, source, warmed), _ = max(open_to.items(), key=itemgetter(1))  # of equals the first
        by_task = {names[dataflow]: switches[task] for task, names in dataflow_names.items()
                   if dataflow in names and (switches[task].source, switches[task].warmed) == (source, warmed)}
        try:
            proposal = _propose(dataflow, by_task, _reason(by_task.values(), estate))
        except WeirError as error:  # of this dataflow alone, and the next second tries again
            log.info("switch_not_proposed", dataflow=dataflow, tasks=sorted(by_task), code=error.code)
            proposal = None
        if proposal is not None:
            made.append(proposal)
        for switch in by_task.values():
            names = dataflow_names.pop(switch.task)
            if proposal is None and (others := {key: name for key, name in names.items() if key != dataflow}):
                dataflow_names[switch.task] = others
    return made


def _names(switch: WantedSwitch, estate: Estate, at: datetime) -> Mapping[str, str]:
    """The name of a running task in each dataflow that may switch it at a moment; those that work first."""
    users, hold = users_of(estate, switch.task), hold_of(switch.task, at=at)
    if not users or (hold is not None and not (switch.warmed and switch.alternate == hold.alternate)):
        return {}
    names, of_task = dict(users), Q()
    for dataflow, name in users:
        of_task |= Q(dataflow_id=dataflow) & (
            Q(plan__options__task=name) | Q(plan__options__along__has_key=name))
    switches = Proposal.objects.filter(of_task, plan__options__has_key="alternate")
    if switches.filter(created__gt=at - APART).exists() or switches.open().exists():
        return {}
    busy = Proposal.objects.filter(dataflow__in=names).under_way().values("dataflow")
    free = {str(key) for key in DataflowRecord.objects.filter(
        pk__in=names, status=dataflows.RUNNING).exclude(pk__in=busy).values_list("pk", flat=True)}
    return {dataflow: name for dataflow, name in names.items() if dataflow in free}


def _reason(switches: Iterable[WantedSwitch], estate: Estate) -> str:
    """The reason, in parts that everybody may read whom the plan concerns: who uses a task may know what its guards
    saw."""
    users = {switch: {dataflow for dataflow, _ in users_of(estate, switch.task)} for switch in switches}
    everyone = set[str]().union(*users.values())
    reasons = dict.fromkeys(switch.because for switch, user_ids in users.items() if user_ids == everyone)
    return "; ".join(reasons) or "their guards want it"


def _propose(dataflow: str, switches: Mapping[str, WantedSwitch], reason: str) -> Proposal | None:
    """A proposal that tasks of a dataflow switch, by their names there; None where it does not work any more."""
    (task, first), *others = switches.items()
    with audited(actor=None, verb="dataflow.switch_by_guard") as audit:
        lock_generation()
        record = DataflowRecord.objects.select_related("team").filter(pk=dataflow, status=dataflows.RUNNING).first()
        if record is None or Proposal.objects.filter(dataflow=dataflow).under_way().exists():
            audit.nothing_changed()
            return None
        options = {"task": task, "alternate": first.alternate, "reason": reason, "source": first.source}
        if others:
            options["along"] = {name: switch.alternate for name, switch in others}
        if first.warmed:
            options["warmed"] = True
        proposal = open_switch(audit, record, options)
        audit.subject, audit.team = record, record.team
        audit.details = {"proposal": str(proposal.pk), **{key: options[key] for key in options if key != "reason"}}
        return proposal
