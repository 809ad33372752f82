"""The columns of every stream of a document, and what its tasks read that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from .alternates import AlternatesDiffer, is_dynamic, one_schema
from .bounds import DOCUMENT_TYPES
from .canonical import canonical_config
from .columns import STREAM_TYPES, Columns, ColumnsOf, TypesTooLong, interleaved
from .draft import Draft, DraftTask
from .errors import WeirError
from .positions import Problems, TextPosition


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """What a task reads and what it gives: its inputs' columns, interleaved, and its own."""

    inputs: Columns
    outputs: Columns


def columns_by_task(draft: Draft, columns_of: ColumnsOf, problems: Problems | None = None) -> dict[str, TaskColumns]:
    """The columns of each task's input and output, upstream first; reports what a task reads that is not there.

    Parameters
    ----------
    draft : Draft
        Tasks and streams as far as they could be read; none of those in a cycle have columns.
    problems : Problems, optional
        Where problems are reported; without it a task that is wrong has unknown columns, and nothing is said.
    """
    parents: dict[str, list[str]] = {task_id: [] for task_id in draft.tasks}
    for stream in draft.streams:
        source, target = (None if end is None else end.value for end in (stream.source, stream.target))
        if source in parents and target in parents and source != target:
            parents[target].append(source)
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError:
        return {}
    columns: dict[str, TaskColumns] = {}
    length = 0
    for task_id in order:
        task = draft.tasks[task_id]
        inputs = outputs = Columns.unknown()
        given = [(parent, columns[parent].outputs) for parent in dict.fromkeys(parents[task_id])]
        try:
            length = _lengthened(length, *(columns for _, columns in given))
            inputs = _inputs(task, given)
            made = _made(task, inputs, columns_of, problems)
            length, outputs = _lengthened(length, made), made
        except WeirError as wrong:
            _report(task, wrong, problems)
        columns[task_id] = TaskColumns(inputs, outputs)
    return columns


def _lengthened(length: int, *read: Columns) -> int:
    """The length of all columns of a document so far, with those of some streams."""
    longer = length + sum(columns.characters for columns in read)
    if longer > DOCUMENT_TYPES.most:
        raise TypesTooLong(
            f"The columns of all tasks come to more than {DOCUMENT_TYPES.most:,} characters.",
            remedy="Split the dataflow, or let tasks give fewer columns.")
    return longer


def _inputs(task: DraftTask, parents: list[tuple[str, Columns]]) -> Columns:
    if task.type is not None and task.type.kind == "source":
        return Columns(STREAM_TYPES)
    return interleaved(parents) if parents else Columns.unknown()


def _made(task: DraftTask, inputs: Columns, columns_of: ColumnsOf, problems: Problems | None) -> Columns:
    """What a task gives, whichever of its alternates is on; of these each is reported by itself."""
    if not task.alternates:
        return _outputs(task, inputs, columns_of)
    given: list[tuple[str, Columns]] = []
    for way in task.alternates.values():
        try:
            given.append((way.alternate, _outputs(way, inputs, columns_of)))
        except WeirError as wrong:
            _report(way, wrong, problems)
            given.append((way.alternate, Columns.unknown()))
    try:
        return one_schema(given)
    except AlternatesDiffer as wrong:
        _report(task.alternates[str(wrong.facts["alternate"])], wrong, problems)
        return Columns.unknown()


def _outputs(task: DraftTask, inputs: Columns, columns_of: ColumnsOf) -> Columns:
    if task.type is None or is_dynamic(task.type.name):  # the one without alternates that could be read
        return Columns.unknown()
    return columns_of(task.type, inputs, canonical_config(task.type, task.config))


def _report(task: DraftTask, error: WeirError, problems: Problems | None) -> None:
    if problems is not None:
        position = _position(task, error.facts)
        named = f"Task {task.id}, alternate {task.alternate}" if task.alternate else f"Task {task.id}"
        problems.add(error.code, position, f"{named}: {error.message}", error.remedy, task_id=task.id)


def _position(task: DraftTask, facts: Mapping[str, object]) -> TextPosition:
    """Where the parameter stands that is wrong, or its element or key; the task, where it has a default."""
    node = task.parameters.get(str(facts.get("parameter") or ""))
    if node is None:
        return task.position
    value = facts.get("value")
    if node.is_list:
        return next((element.position for element in node.value if element.value == value), node.position)
    return node.keys.get(str(value), node.position) if node.is_mapping else node.position
