"""Pauses and resumptions on the site: a dataflow rests, and goes on."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PAUSE, RESUME
from scheduler.read_set import ReadTrackingView
from scheduler.rearranging import plan_pause, plan_resumption


def _pause(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    return plan_pause(
        estate, why=record.options.get("why", ""),
        **computed_with(record, prices=prices(record.dataflow.latency_limits)))


def _resumption(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    return plan_resumption(estate, **computed_with(record, prices=prices(record.dataflow.latency_limits)))


PAUSING = SitePlanKind(PAUSE, _pause, dataflows.PAUSING, (dataflows.RUNNING,))
RESUMPTION = SitePlanKind(RESUME, _resumption, dataflows.RUNNING, (dataflows.PAUSED,))
