"""Defragmentations on the site: queries become one, or are cut again where they were."""

from __future__ import annotations

from dataclasses import replace

from dashboard.catalog import lifecycle as dataflows
from dashboard.operations.diagnosis.slow_queries import cut_tasks
from dashboard.operations.estate_store.estate_writer import on_slots_there
from dashboard.plans.defragment_evidence import evidence_of, rule
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.defragmenting import plan_defragmentation
from scheduler.model.encoding import freeze_plan
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import DEFRAGMENT
from scheduler.read_set import ReadTrackingView
from scheduler.reuse.defragment import DefragmentRule
from scheduler.undoing import undo


def _defragmentation(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    if "undone" in record.options:
        return _cutting_back(record, estate)
    return plan_defragmentation(
        estate, evidence=evidence_of(estate, str(record.dataflow_id)),
        rule=DefragmentRule(ratio=0.0) if record.options.get("for_latency") else rule(), apart=cut_tasks(),
        path=record.options.get("queries"), **computed_with(record))


def _cutting_back(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    """The plan that cuts a fused query again where it was, on its former slots as far as these exist."""
    made = plan_of(PlanRecord.objects.get(pk=record.options["undone"]))
    back = undo(estate, replace(made, fragments_before=on_slots_there(made.fragments_before)))
    return freeze_plan(replace(back, why=record.options["reason"]))


DEFRAGMENTATION = SitePlanKind(DEFRAGMENT, _defragmentation, None, (dataflows.RUNNING,))
