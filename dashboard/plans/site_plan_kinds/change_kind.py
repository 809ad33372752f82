"""Changes on the site: another version of a dataflow takes the place of the one that runs."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.latency_control.open_batches import lets_open
from dashboard.plans.latency_remarks import choice_remarks, reach_of
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices_and_settings
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from dashboard.savepoint_records.selectors import whole_savepoint
from scheduler.changing import plan_change
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import CHANGE
from scheduler.read_set import ReadTrackingView


def _change(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    options = dict(record.options)
    versions = {
        version.number: version for version in DataflowVersion.objects.select_related("dataflow__team").filter(
            dataflow_id=record.dataflow_id, number__in=[record.version, options["former"]])}
    former = versions[options.pop("former")]
    document, running = versions[record.version].document, former.dataflow
    dataflow, limits = stored_dataflow(document), running.limits_after(document)
    opens = lets_open(running.team)
    saved = options.pop("begin_from", None)
    priced, settings = prices_and_settings(limits, dataflow, opens=opens)
    return plan_change(
        estate, dataflow, former=stored_dataflow(former.document, installed=False), team=running.team.slug,
        settings=settings, begin_from=whole_savepoint(saved, running.team) if saved else None,
        remarks=(*choice_remarks(running, document), *reach_of(dataflow, limits, costs=priced.costs, opens=opens)),
        **computed_with(record, prices=priced), **options)


CHANGING = SitePlanKind(CHANGE, _change, None, (dataflows.RUNNING,))
