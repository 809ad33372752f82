"""Changes of the profiles that a schedule's plan rests on since it was asked for."""

from __future__ import annotations

from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import owner_of
from dashboard.plans.selectors import plan_of
from dashboard.profiles.selectors import profiles_for, records_for
from dashboard.profiles.stored_profiles import profile_of


def profiles_since(record: PlanRecord) -> tuple[str, ...]:
    """The tasks of a schedule's plan whose profiles came into use, or went out of it, since it was asked for.

    What it promises of their rate, slots and price may be another by now.
    """
    if "schedule" not in record.options:
        return ()
    stored = DataflowVersion.objects.get(dataflow=record.dataflow_id, number=record.version)
    dataflow = stored_dataflow(stored.document, installed=False)
    owner = owner_of(dataflow, record.dataflow.team)
    records = records_for({task.type for task in dataflow.tasks}, team=owner, or_since=record.created)
    changed = {profile_of(profile_record) for profile_record in records if profile_record.changed > record.created}
    plan = plan_of(record) if changed else None
    if plan is None or plan.promise is None:
        return ()
    promised = {bundle.task for bundle in plan.promise.bundles}
    now, with_gone = (profiles_for(dataflow.tasks, team=owner, or_since=since) for since in (None, record.created))
    return tuple(
        task.id for task in dataflow.tasks
        if task.id in promised and not changed.isdisjoint((now.find(task), with_gone.find(task))))
