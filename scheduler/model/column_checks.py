"""The columns of every stream of a document, and what its tasks read that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from .alternates import BY, AlternatesDiffer, is_dynamic, one_schema
from .bounds import DOCUMENT_TYPES
from .canonical import canonical_config
from .columns import STREAM_TYPES, Columns, ColumnsOf, TypesTooLong, interleaved
from .draft_values import Draft, DraftTask
from .errors import WeirError
from .paths import OUTPUT
from .positions import Problems, TextPosition

_OF_SOURCES = Columns(STREAM_TYPES)
_OF_KEYS = frozenset({"string", "tinyint", "smallint", "int", "bigint", "boolean"})


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """The input and output columns of a task: its inputs' columns, interleaved, and its own."""

    inputs: Columns
    outputs: Columns


def columns_by_task(draft: Draft, columns_of: ColumnsOf, problems: Problems | None = None) -> dict[str, TaskColumns]:
    """The columns of each task's input and output, upstream first; columns that a task reads and lacks are reported.

    Parameters
    ----------
    draft : Draft
        Tasks and streams as far as they could be read; none of those in a cycle have columns.
    problems : Problems, optional
        The list that takes problems; without it a faulty task has unknown columns, and nothing is reported.
    """
    return _ColumnReader(columns_of).read(draft, problems)


class _ColumnReader:
    """Goes through a document, and through each path in it, and counts how long all columns are."""

    def __init__(self, columns_of: ColumnsOf) -> None:
        self.columns_of = columns_of
        self.length = 0

    def read(
        self, draft: Draft, problems: Problems | None, entering: Columns = _OF_SOURCES
    ) -> dict[str, TaskColumns]:
        """The columns as in `columns_by_task`; sources read what is ``entering``."""
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
        for task_id in order:
            task = draft.tasks[task_id]
            inputs = outputs = Columns.unknown()
            input_columns = [(parent, columns[parent].outputs) for parent in dict.fromkeys(parents[task_id])]
            try:
                self._lengthen(*(columns for _, columns in input_columns))
                if task.type is not None and task.type.kind == "source":
                    inputs = entering
                elif input_columns:
                    inputs = interleaved(input_columns)
                made = self._output_columns(task, inputs, problems)
                self._lengthen(made)
                outputs = made
            except WeirError as wrong:
                _report(task, wrong, problems)
            columns[task_id] = TaskColumns(inputs, outputs)
        return columns

    def _lengthen(self, *read: Columns) -> None:
        self.length += sum(columns.characters for columns in read)
        if self.length > DOCUMENT_TYPES.most:
            raise TypesTooLong(
                f"The columns of all tasks have more than {DOCUMENT_TYPES.most:,} characters.",
                remedy="Split the dataflow, or let tasks give fewer columns.")

    def _output_columns(self, task: DraftTask, inputs: Columns, problems: Problems | None) -> Columns:
        """The output columns of a task, whichever of its alternates is on; of these each is reported by itself."""
        if not task.alternates:
            return self._outputs(task, inputs)
        output_schemas: list[tuple[str, Columns]] = []
        for name in task.config.get(BY) or () if task.type is not None and not task.type.stateful else ():
            inputs.require_type(str(name), _OF_KEYS, "texts, whole numbers or truth", parameter=BY)
        for way in task.alternates.values():
            try:
                made = self._along(way, inputs, problems) if way.path is not None else self._outputs(way, inputs)
            except WeirError as wrong:
                _report(way, wrong, problems)
                made = Columns.unknown()
            output_schemas.append((way.alternate, made))
        try:
            return one_schema(output_schemas)
        except AlternatesDiffer as wrong:
            _report(task.alternates[str(wrong.facts["alternate"])], wrong, problems)
            return Columns.unknown()

    def _along(self, way: DraftTask, inputs: Columns, problems: Problems | None) -> Columns:
        assert way.path is not None
        within = None if problems is None else problems.within(way.where, way.id)
        leaving = self.read(way.path, within, inputs).get(OUTPUT)
        return Columns.unknown() if leaving is None else leaving.inputs

    def _outputs(self, task: DraftTask, inputs: Columns) -> Columns:
        if task.type is None or is_dynamic(task.type.name):  # the one without alternates that could be read
            return Columns.unknown()
        if task.is_end:
            return inputs
        return self.columns_of(task.type, inputs, canonical_config(task.type, task.config))


def _report(task: DraftTask, error: WeirError, problems: Problems | None) -> None:
    if problems is not None:
        position = _position(task, error.facts)
        problems.add(error.code, position, f"{task.where}: {error.message}", error.remedy, task_id=task.id)


def _position(task: DraftTask, facts: Mapping[str, object]) -> TextPosition:
    """The position of the wrong parameter, or of its element or key; the task, where it has a default."""
    node = task.parameters.get(str(facts.get("parameter") or ""))
    if node is None:
        return task.position
    value = facts.get("value")
    if node.is_list:
        return next((element.position for element in node.value if element.value == value), node.position)
    return node.keys.get(str(value), node.position) if node.is_mapping else node.position
