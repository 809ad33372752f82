"""Settings on the site: batches of queries stay open, or are micro-batches again; other alternates are on."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.operations.latency_control.open_batches import why_not_set
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.guards.element_policies import policy_in
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import SET
from scheduler.read_set import ReadTrackingView
from scheduler.setting import plan_key_switch, plan_policy, plan_settings, plan_switch


def _setting(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    options = record.options
    if "of_key" in options:
        return plan_key_switch(
            estate, task=options["task"], alternate=options["alternate"], of_key=options["of_key"],
            **computed_with(record, prices=prices(record.dataflow.latency_limits)))
    if "alternate" in options:
        return plan_switch(
            estate, task=options["task"], alternate=options["alternate"], along=options.get("along", {}),
            stays="hold_s" in options, at_once=options.get("at_once", False), warmed=options.get("warmed", False),
            why=options.get("reason", ""),
            **computed_with(record, prices=prices(record.dataflow.latency_limits)))
    if "policy" in options:
        stated = options["policy"]
        return plan_policy(
            estate, task=options["task"], policy=None if stated is None else policy_in(stated),
            why=options.get("reason", ""), **computed_with(record))
    return plan_settings(
        estate, real_time=options["real_time"], trigger_ms=options["trigger_ms"], cores_delta=options["cores_delta"],
        why=options["reason"], **computed_with(record))


SETTING = SitePlanKind(SET, _setting, None, (dataflows.RUNNING,), hindrance=why_not_set)
