"""Computing a plan from the estate: pure science, nothing is written."""

from __future__ import annotations

import structlog

from dashboard.operations.estate_store.estate_reader import StoredEstate
from dashboard.plans.models import PlanRecord
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.plan import Plan
from scheduler.read_set import Reads, ReadTrackingView

log = structlog.get_logger(__name__)


class PlanningFailed(WeirError):
    """The planner met a case that it was not written for."""

    code = "planning_failed"


def compute(record: PlanRecord, estate: StoredEstate) -> Plan:
    """The plan that a record asks for, at this generation of the estate."""
    return plan_and_reads(record, estate)[0]


def plan_and_reads(record: PlanRecord, estate: StoredEstate) -> tuple[Plan, Reads]:
    """The plan that a record asks for, and what of the estate it was made from; raises as `compute`."""
    reading = ReadTrackingView(estate)
    try:
        plan = SITE_PLAN_KINDS[record.kind].compute(record, reading)
        return plan, reading.reads(plan)
    except WeirError:
        raise
    except Exception as error:
        if estate.has_moved_on():  # what was read is of two generations, and thrown away
            raise StalePlan("The estate has changed meanwhile.", remedy="Compute the plan again.") from error
        # A defect of the planner must not leave the plan computing for ever: the record and the log say what it was.
        log.exception("planning_failed", plan=str(record.pk))
        raise PlanningFailed(
            f"The planner failed: {type(error).__name__}.", remedy="See the log, then recompute.",
        ) from error
