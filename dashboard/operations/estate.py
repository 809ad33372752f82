"""The estate between its rows and the scheduler's value: loading it, and storing the difference that a plan makes."""

from __future__ import annotations

from django.db import connection
from django.dispatch import Signal

from dashboard.audit.trail import inside_command
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.models import EstateState, FragmentRow, NodeRow, RunningTaskRow, Use
from scheduler.model.errors import StalePlan
from scheduler.model.estate import Estate, Fragment, RunningTask, Slot, Submitted

# Sent inside the transaction that makes a new generation, so that what was planned for the last one is overtaken in it.
moved = Signal()

_kept: tuple[object, Estate] = (None, Estate())


def lock_generation() -> int:
    """Take the estate's lock until the transaction ends, and return the generation.

    Every command on proposals takes this lock first, so that two of them never wait for each other.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("the estate is locked inside a transaction")
    EstateState.objects.get_or_create(pk=1)
    return EstateState.objects.select_for_update().get(pk=1).generation


def load_estate(*, for_update: bool = False) -> Estate:
    """The estate at one generation.

    Parameters
    ----------
    for_update : bool
        Lock it until the transaction ends, to store a change of it.

    Returns
    -------
    Estate
        Consistent: rows that were changed while they were read are read again.
    """
    if for_update:
        return _read(lock_generation())
    while True:
        generation = _generation()
        estate = _read(generation)
        if _generation() == generation:
            return estate


def current_estate() -> Estate:
    """The estate for reading, kept by this process until its generation changes: live pages ask twice a second."""
    global _kept
    key = EstateState.objects.filter(pk=1).values_list("generation", "changed").first()
    kept_key, estate = _kept
    if key is None or kept_key != key:
        estate = load_estate()
        _kept = (key, estate)
    return estate


def store_change(before: Estate, after: Estate) -> None:
    """Write the difference of two estates, the older of which the caller loaded for update.

    Raises
    ------
    StalePlan
        The rows are of another generation than ``before``.
    """
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    state = EstateState.objects.select_for_update().get(pk=1)
    if state.generation != before.generation or after.generation <= before.generation:
        raise StalePlan(
            "The estate moved on.", remedy="Recompute the plan.",
            planned=before.generation, generation=state.generation,
        )
    _store_uses_removed(before, after)
    _store_tasks(before, after)
    _store_uses_added(before, after)
    _store_fragments(before, after)
    state.generation = after.generation
    state.save()
    moved.send(sender=None, generation=after.generation)


def _generation() -> int:
    return EstateState.objects.filter(pk=1).values_list("generation", flat=True).first() or 0


def _read(generation: int) -> Estate:
    tasks = {
        row.fingerprint: RunningTask(
            id=row.fingerprint, type=row.type, config=row.config, parents=tuple(row.parents), scope=row.scope,
            cores=row.cores)
        for row in RunningTaskRow.objects.order_by("fingerprint")
    }
    fragments = {
        row.id: Fragment(
            id=row.id, tasks=tuple(row.tasks), slot=row.slot, active=row.active,
            outlets={task: tuple(readers) for task, readers in row.outlets.items()})
        for row in FragmentRow.objects.order_by("id")
    }
    slots = tuple(Slot(node=node.name, index=i) for node in NodeRow.objects.all() for i in range(node.slots))
    return Estate(
        generation=generation, tasks=tasks, submitted=_read_submitted(), fragments=fragments, slots=slots)


def _read_submitted() -> dict[str, Submitted]:
    uses: dict[str, list[Use]] = {}
    for use in Use.objects.order_by("dataflow_id", "position"):
        uses.setdefault(str(use.dataflow_id), []).append(use)
    records = DataflowRecord.objects.filter(pk__in=uses).select_related("team")
    return {
        str(record.pk): Submitted(
            id=str(record.pk), name=record.name, team=record.team.slug,
            running={use.task_id: use.running_task_id for use in uses[str(record.pk)]},
            sinks=tuple(use.task_id for use in uses[str(record.pk)] if use.is_sink))
        for record in records
    }


def _store_uses_removed(before: Estate, after: Estate) -> None:
    Use.objects.filter(dataflow_id__in=set(before.submitted) - set(after.submitted)).delete()


def _store_uses_added(before: Estate, after: Estate) -> None:
    Use.objects.bulk_create(
        Use(dataflow_id=submitted.id, task_id=task_id, position=position, is_sink=task_id in submitted.sinks,
            running_task_id=running)
        for dataflow_id, submitted in after.submitted.items() if dataflow_id not in before.submitted
        for position, (task_id, running) in enumerate(submitted.running.items())
    )


def _store_tasks(before: Estate, after: Estate) -> None:
    RunningTaskRow.objects.filter(pk__in=set(before.tasks) - set(after.tasks)).delete()
    RunningTaskRow.objects.bulk_create(
        RunningTaskRow(
            fingerprint=task.id, type=task.type, config=dict(task.config), parents=list(task.parents),
            scope=task.scope, cores=task.cores, started_generation=after.generation)
        for task_id, task in after.tasks.items() if task_id not in before.tasks
    )


def _store_fragments(before: Estate, after: Estate) -> None:
    FragmentRow.objects.filter(pk__in=set(before.fragments) - set(after.fragments)).delete()
    FragmentRow.objects.bulk_create(
        FragmentRow(id=fragment_id, started_generation=after.generation, **_fields(fragment))
        for fragment_id, fragment in after.fragments.items() if fragment_id not in before.fragments
    )
    for fragment_id, fragment in after.fragments.items():
        if fragment_id in before.fragments and before.fragments[fragment_id] != fragment:
            FragmentRow.objects.filter(pk=fragment_id).update(**_fields(fragment))


def _fields(fragment: Fragment) -> dict[str, object]:
    return {
        "tasks": list(fragment.tasks), "slot": fragment.slot, "active": fragment.active,
        "outlets": {task: list(readers) for task, readers in fragment.outlets.items()},
    }
