"""Computing a plan from the estate: pure science, nothing is written."""

from __future__ import annotations

from typing import Any

import structlog
from django.conf import settings

from dashboard import jobs
from dashboard.catalog.documents import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.estate_reader import StoredEstate
from dashboard.operations.nodes import pinning_remarks
from dashboard.plans.choices import Choice
from dashboard.plans.containment import containment_of
from dashboard.plans.evidence import evidence_of, left_bundles, rule
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of
from dashboard.profiles.warnings import machine_warnings, warning_notes, warnings_about
from scheduler import planning, rearranging, rescheduling
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.plan import Plan
from scheduler.scheduling import Schedule

log = structlog.get_logger(__name__)


class PlanningFailed(WeirError):
    """The planner met a case that it was not written for."""

    code = "planning_failed"


def compute(record: PlanRecord, estate: StoredEstate) -> Plan:
    """The plan that a record asks for, at this generation of the estate.

    Raises
    ------
    WeirError
        No plan can be made; the error says why.
    """
    try:
        if record.kind != "submit":
            return _of_what_runs(record, estate)
        version = DataflowVersion.objects.select_related("dataflow__team").get(
            dataflow_id=record.dataflow_id, number=record.version)
        options = dict(record.options)
        schedule, remarks = _schedule(record, estate, options)
        return planning.plan_submission(
            estate, stored_dataflow(version.document), dataflow_id=str(record.dataflow_id),
            team=version.dataflow.team.slug, task_types=jobs.task_types(), prices=prices(),
            containment=containment_of(version.dataflow.team), schedule=schedule, remarks=remarks,
            **options,
        )
    except WeirError:
        raise
    except Exception as error:
        if estate.has_moved_on():  # what was read is of two generations, and thrown away
            raise StalePlan("The estate moved on.", remedy="Compute the plan again.") from error
        # A defect of the planner must not leave the plan computing for ever: the record and the log say what it was.
        log.exception("planning_failed", plan=str(record.pk))
        raise PlanningFailed(
            f"The planner failed: {type(error).__name__}.", remedy="See the log, then recompute.",
        ) from error


def _of_what_runs(record: PlanRecord, estate: StoredEstate) -> Plan:
    known = {"task_types": jobs.task_types(), "prices": prices()}
    dataflow_id = str(record.dataflow_id)
    if record.kind == "defragment":
        return rearranging.plan_defragmentation(
            estate, dataflow_id, evidence=evidence_of(estate, dataflow_id), rule=rule(), **known)
    if record.kind == "schedule":
        found, remarks = _schedule(record, estate, dict(record.options))
        return rescheduling.plan_schedule(
            estate, dataflow_id, found, left=left_bundles(), remarks=remarks, **known)
    plans = {
        "remove": planning.plan_removal, "pause": rearranging.plan_pause, "resume": rearranging.plan_resumption}
    return plans[record.kind](estate, dataflow_id, **known)


def _schedule(
    record: PlanRecord, estate: StoredEstate, options: dict[str, Any]
) -> tuple[Schedule | None, list[str]]:
    """The schedule that the options ask for, taken out of them, and what may keep it from holding; else None."""
    wanted = options.pop("schedule", None)
    if wanted is None:
        return None, []
    choice = Choice.of(**wanted)
    problem = problem_of(
        record.dataflow, routing=choice.routing, version=record.version, estate=estate,
        fresh=bool(options.get("fresh")))
    problem.require_open()
    found = problem.schedule(choice.pair, choice.rate_per_s)
    profiles = found.job.profiles
    doubts = warnings_about(profiles.values(), team=problem.team)
    remarks = [remark.text for remark in warning_notes(
        (task, profile.task_type, doubts.get(profile, ())) for task, profile in profiles.items())]
    return found, [
        *remarks, *machine_warnings(found), *pinning_remarks(slot.node for slot in found.placement.slots)]


def prices() -> planning.Prices:
    """What the settings say that slots, memory and traffic cost."""
    return planning.Prices(
        core_hour=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY, trigger_ms=settings.TRIGGER_MS,
        memory_gb_hour=settings.MEMORY_GB_HOUR_PRICE, traffic_gb=settings.TRAFFIC_GB_PRICE,
        sizes=tuple(sorted(settings.NODE_SIZES.items())))
