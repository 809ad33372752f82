"""Kinds of plans on the site's side: how each is computed from a record, and what becomes of its dataflow.

What a kind is called and needs says its entry in ``scheduler.model.plan_kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dashboard import jobs
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.documents import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.estate_writer import on_slots_there
from dashboard.operations.file_secrets import file_secrets
from dashboard.operations.nodes import pinning_remarks
from dashboard.operations.offered_slots import closed_slots, silent_nodes
from dashboard.operations.open_batches import why_not_set
from dashboard.operations.slow_queries import cut_tasks
from dashboard.plans.choices import Choice
from dashboard.plans.containment import containment_of
from dashboard.plans.evidence import evidence_of, left_bundles, rule
from dashboard.plans.models import PlanRecord
from dashboard.plans.prices import prices, prices_in_force
from dashboard.plans.reach import choice_remarks, reach_of
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.profiles.estimates import estimates_remark
from dashboard.profiles.warnings import machine_warnings, warning_notes, warnings_about
from scheduler import changing, isolating, moving, planning, rearranging, rescheduling, setting
from scheduler.interruptions import interruptions_of
from scheduler.model.encoding import freeze_plan
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.fragment import node_of
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import (
    CHANGE,
    DEFRAGMENT,
    ISOLATE,
    MOVE,
    PAUSE,
    REMOVE,
    RESUME,
    SCHEDULE,
    SET,
    SUBMIT,
    PlanKind,
)
from scheduler.reading import Reading
from scheduler.reuse.defragment import Rule
from scheduler.scheduling import Schedule
from scheduler.undoing import undo


@dataclass(frozen=True, slots=True)
class SitePlanKind:
    """One kind of plan as the site has it.

    Parameters
    ----------
    kind : PlanKind
        What it is called, what it needs and how it is undone.
    compute : callable
        Its plan, from a record and the estate.
    becomes : str, optional
        The dataflow's state from the moment that the plan is in the estate; None where that stays.
    proposed_from : collection of str
        The states in which a dataflow must be for it to be proposed; none where a submission proposes it.
    hindrance : callable
        Why a plan that was approved cannot be enacted now, as an error; None where nothing stands in the way.
    """

    kind: PlanKind
    compute: Callable[[PlanRecord, Reading], Plan]
    becomes: str | None
    proposed_from: Collection[str]
    hindrance: Callable[[Plan], WeirError | None] = lambda plan: None

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def moves_queries(self) -> bool:
        return self.kind.moves_queries

    @property
    def needs_no_handover(self) -> bool:
        return self.kind.needs_no_handover

    @property
    def has_document(self) -> bool:
        return self.kind.has_document

    @property
    def has_version(self) -> bool:
        return self.kind.has_version


def _submission(record: PlanRecord, estate: Reading) -> Plan:
    version = DataflowVersion.objects.select_related("dataflow__team").get(
        dataflow_id=record.dataflow_id, number=record.version)
    options = dict(record.options)
    schedule, remarks = _schedule(record, estate, options)
    dataflow, limits = stored_dataflow(version.document), version.dataflow.latency_limits
    remarks = [*remarks, *reach_of(dataflow, limits, scheduled=schedule is not None)]
    return planning.plan_submission(
        estate, dataflow, dataflow_id=str(record.dataflow_id),
        team=version.dataflow.team.slug, task_types=jobs.task_types(),
        prices=prices(limits, dataflow=None if schedule else dataflow),
        containment=containment_of(version.dataflow.team, estate), schedule=schedule, remarks=remarks, **options)


def _of_what_runs(planner: Callable[..., Plan], record: PlanRecord, estate: Reading) -> Plan:
    return planner(
        estate, str(record.dataflow_id), task_types=jobs.task_types(), prices=prices(record.dataflow.latency_limits))


def _defragmentation(record: PlanRecord, estate: Reading) -> Plan:
    dataflow_id = str(record.dataflow_id)
    if "undone" in record.options:
        return _cutting_back(record, estate)
    return rearranging.plan_defragmentation(
        estate, dataflow_id, task_types=jobs.task_types(), prices=prices_in_force(),
        evidence=evidence_of(estate, dataflow_id),
        rule=Rule(ratio=0.0) if record.options.get("for_latency") else rule(), apart=cut_tasks(),
        path=record.options.get("queries"))


def _cutting_back(record: PlanRecord, estate: Reading) -> Plan:
    """What another plan fused is cut again where it was: on the slots that it had, as far as these are there."""
    made = plan_of(PlanRecord.objects.get(pk=record.options["undone"]))
    back = undo(estate, replace(made, fragments_before=on_slots_there(made.fragments_before)))
    return freeze_plan(replace(back, why=record.options["reason"]))


def _pause(record: PlanRecord, estate: Reading) -> Plan:
    return rearranging.plan_pause(
        estate, str(record.dataflow_id), task_types=jobs.task_types(), prices=prices(record.dataflow.latency_limits),
        why=record.options.get("why", ""))


def _isolation(record: PlanRecord, estate: Reading) -> Plan:
    return isolating.plan_isolation(
        estate, str(record.dataflow_id), slow=record.options.get("slow", ""), task_types=jobs.task_types(),
        prices=prices_in_force(), why=record.options.get("why", ""))


def _move(record: PlanRecord, estate: Reading) -> Plan:
    submitted = estate.submitted.get(str(record.dataflow_id))
    tasks = set(submitted.running.values()) if submitted is not None else ()
    return moving.plan_move(
        estate, str(record.dataflow_id), query=record.options["query"], slot=record.options["slot"],
        along=record.options.get("along", ()),
        task_types=jobs.task_types(), prices=prices_in_force(), why=record.options.get("why", ""),
        file_secrets=file_secrets(estate.tasks[task] for task in tasks if task in estate.tasks),
        silent=frozenset(silent_nodes().values_list("name", flat=True)),
        closed=closed_slots([record.options["slot"]]))


def _silent_nodes_of_move(plan: Plan) -> WeirError | None:
    """Why a move would not begin: nothing is heard of the node that it goes to, or leaves."""
    left = {node_of(bundle.slot) for interruption in interruptions_of(plan) for bundle in interruption.queries}
    reached = {node_of(bundle.slot) for fragment in plan.fragments_after.values() for bundle in fragment.queries}
    silent = silent_nodes().filter(name__in=reached | left).values_list("name", flat=True).first()
    if silent is None:
        return None
    if silent in reached:
        return InvalidTransition(
            f"Nothing is heard of {silent} any more, to which it would move something.",
            remedy="Move it to another node, or start that one's agent and compute the plan again.")
    return InvalidTransition(
        f"Nothing is heard of {silent} any more, off which it would move something.",
        remedy="Start its agent, and compute the plan again.")


def _setting(record: PlanRecord, estate: Reading) -> Plan:
    options = record.options
    return setting.plan_settings(
        estate, str(record.dataflow_id), real_time=options["real_time"], trigger_ms=options["trigger_ms"],
        cores_delta=options["cores_delta"], task_types=jobs.task_types(), prices=prices_in_force(),
        why=options["reason"])


def _change(record: PlanRecord, estate: Reading) -> Plan:
    options = dict(record.options)
    versions = {
        version.number: version for version in DataflowVersion.objects.select_related("dataflow__team").filter(
            dataflow_id=record.dataflow_id, number__in=[record.version, options["former"]])}
    former = versions[options.pop("former")]
    document, running = versions[record.version].document, former.dataflow
    dataflow = stored_dataflow(document)
    limits, task_types = running.limits_after(document), jobs.task_types()
    return changing.plan_change(
        estate, dataflow,
        former=stored_dataflow(former.document, installed=False), dataflow_id=str(record.dataflow_id),
        team=running.team.slug, task_types=task_types, prices=prices(limits, dataflow=dataflow),
        remarks=(*choice_remarks(running, document), *reach_of(dataflow, limits)), **options)


def _scheduling(record: PlanRecord, estate: Reading) -> Plan:
    schedule, remarks = _schedule(record, estate, dict(record.options))
    return rescheduling.plan_schedule(
        estate, str(record.dataflow_id), schedule, task_types=jobs.task_types(), prices=prices(),
        left=left_bundles(), remarks=remarks)


def _schedule(
    record: PlanRecord, estate: Reading, options: dict[str, Any]
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
    scheduled = problem.schedule(choice.pair, choice.rate_per_s)
    profiles = scheduled.job.profiles
    warnings = warnings_about(profiles.values(), team=problem.team)
    remarks = [remark.text for remark in warning_notes(
        (task, profile.task_type, warnings.get(profile, ())) for task, profile in profiles.items())]
    estimated = estimates_remark(profiles.values())
    return scheduled, [
        *([estimated] if estimated else []), *remarks, *machine_warnings(scheduled),
        *pinning_remarks(slot.node for slot in scheduled.placement.slots)]


SITE_PLAN_KINDS: Mapping[str, SitePlanKind] = {kind.name: kind for kind in (
    SitePlanKind(SUBMIT, _submission, dataflows.RUNNING, ()),
    SitePlanKind(
        REMOVE, partial(_of_what_runs, planning.plan_removal), dataflows.REMOVING,
        (dataflows.RUNNING, dataflows.PAUSED)),
    SitePlanKind(
        PAUSE, _pause, dataflows.PAUSING, (dataflows.RUNNING,)),
    SitePlanKind(
        RESUME, partial(_of_what_runs, rearranging.plan_resumption), dataflows.RUNNING, (dataflows.PAUSED,)),
    SitePlanKind(DEFRAGMENT, _defragmentation, None, (dataflows.RUNNING,)),
    SitePlanKind(SCHEDULE, _scheduling, None, (dataflows.RUNNING,)),
    SitePlanKind(ISOLATE, _isolation, None, (dataflows.RUNNING,)),
    SitePlanKind(MOVE, _move, None, (dataflows.RUNNING,), hindrance=_silent_nodes_of_move),
    SitePlanKind(SET, _setting, None, (dataflows.RUNNING,), hindrance=why_not_set),
    SitePlanKind(CHANGE, _change, None, (dataflows.RUNNING,)),
)}
