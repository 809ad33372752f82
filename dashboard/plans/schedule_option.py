"""The option of a plan that says by what schedule its dataflow is to run."""

from __future__ import annotations

from typing import Any

from dashboard.operations.live_view.nodes import pinning_remarks
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of
from dashboard.profiles.estimates import estimates_remark
from dashboard.profiles.warnings import machine_warnings, warning_notes, warnings_about
from scheduler.read_set import ReadTrackingView
from scheduler.scheduling import Schedule


def schedule_of(
    record: PlanRecord, estate: ReadTrackingView, options: dict[str, Any]
) -> tuple[Schedule | None, list[str]]:
    """The schedule that the options ask for, taken out of them, and what may keep it from holding; else None."""
    wanted_choice = options.pop("schedule", None)
    if wanted_choice is None:
        return None, []
    choice = ScheduleChoice.of(**wanted_choice)
    problem = problem_of(
        record.dataflow, routing=choice.routing, version=record.version, estate=estate,
        fresh=bool(options.get("fresh")))
    problem.require_open()
    scheduled = problem.schedule(choice.pair, choice.rate_per_s)
    profiles = scheduled.job.profiles
    warnings = warnings_about(profiles.values(), team=problem.team)
    remarks = [remark.text for remark in warning_notes(
        (task, profile.task_type, warnings.get(profile, ())) for task, profile in profiles.items())]
    estimated = estimates_remark(profiles.values())
    return scheduled, [
        *([estimated] if estimated else []), *remarks, *machine_warnings(scheduled),
        *pinning_remarks(slot.node for slot in scheduled.placement.slots)]
