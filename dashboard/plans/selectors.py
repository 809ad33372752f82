"""Reading plans.

- ``plan_of(record)``: the frozen ``scheduler.model.plan.Plan``, its digest checked; None before it is ready.
"""

from __future__ import annotations

from dashboard.plans.models import PlanRecord
from scheduler.model.encoding import plan_from_json
from scheduler.model.plan import Plan


def plan_of(record: PlanRecord) -> Plan | None:
    """The frozen plan; ``AlteredPlan`` where the stored text does not have its digest."""
    return plan_from_json(record.document) if record.document else None
