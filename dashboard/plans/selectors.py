"""Reading plans.

- ``plan_of(record)``: the frozen ``scheduler.model.plan.Plan``, its digest checked; None before it is ready.
"""

from __future__ import annotations

from dashboard.plans.models import PlanRecord
from scheduler.model.encoding import plan_from_json
from scheduler.model.errors import AlteredPlan
from scheduler.model.plan import Plan


def plan_of(record: PlanRecord) -> Plan | None:
    """The frozen plan; ``AlteredPlan`` if the stored text does not have its digest.

    The plan's generation is the one that its ids are numbered for. The record's generation is the newest at which the
    plan was found to stand: later, if no change since concerns it.
    """
    plan = plan_from_json(record.document) if record.document else None
    if plan is not None and (record.generation is None or plan.generation > record.generation):
        raise AlteredPlan(
            "The stored plan is of a later generation than the one that was frozen", remedy="Compute it again.",
            digest=plan.digest)
    return plan
