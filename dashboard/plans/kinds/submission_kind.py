"""Submissions on the site: a dataflow comes into the estate by its document."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.documents import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.plans.containment import containment_of
from dashboard.plans.kinds.site_plan_kind import SitePlanKind, computed_with
from dashboard.plans.models import PlanRecord
from dashboard.plans.prices import prices
from dashboard.plans.reach import reach_of
from dashboard.plans.schedule_option import schedule_of
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import SUBMIT
from scheduler.planning import plan_submission
from scheduler.reading import Reading


def _submission(record: PlanRecord, estate: Reading) -> Plan:
    version = DataflowVersion.objects.select_related("dataflow__team").get(
        dataflow_id=record.dataflow_id, number=record.version)
    options = dict(record.options)
    schedule, remarks = schedule_of(record, estate, options)
    dataflow, limits = stored_dataflow(version.document), version.dataflow.latency_limits
    remarks = [*remarks, *reach_of(dataflow, limits, scheduled=schedule is not None)]
    return plan_submission(
        estate, dataflow, team=version.dataflow.team.slug, schedule=schedule, remarks=remarks,
        containment=containment_of(version.dataflow.team, estate),
        **computed_with(record, prices=prices(limits, dataflow=None if schedule else dataflow)), **options)


SUBMISSION = SitePlanKind(SUBMIT, _submission, dataflows.RUNNING, ())
