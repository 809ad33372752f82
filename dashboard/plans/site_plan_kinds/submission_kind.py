"""Submissions on the site: a dataflow comes into the estate by its document."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.latency_control.open_batches import lets_open
from dashboard.plans.latency_remarks import reach_of
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices, prices_and_settings
from dashboard.plans.schedule_option import schedule_of
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from dashboard.plans.team_containment import containment_of
from dashboard.savepoint_records.selectors import whole_savepoint
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import SUBMIT
from scheduler.planning import plan_submission
from scheduler.read_set import ReadTrackingView


def _submission(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    version = DataflowVersion.objects.select_related("dataflow__team").get(
        dataflow_id=record.dataflow_id, number=record.version)
    options = dict(record.options)
    schedule, remarks = schedule_of(record, estate, options)
    dataflow, limits, team = stored_dataflow(version.document), version.dataflow.latency_limits, version.dataflow.team
    opens = schedule is None and lets_open(team)
    priced, settings = (prices(limits), {}) if schedule else prices_and_settings(limits, dataflow, opens=opens)
    remarks = [*remarks, *reach_of(dataflow, limits, costs=priced.costs, opens=opens)]
    saved = options.pop("begin_from", None)
    return plan_submission(
        estate, dataflow, team=team.slug, schedule=schedule, remarks=remarks,
        containment=containment_of(team, estate), begin_from=whole_savepoint(saved, team) if saved else None,
        settings=settings, **computed_with(record, prices=priced), **options)


SUBMISSION = SitePlanKind(SUBMIT, _submission, dataflows.RUNNING, ())
