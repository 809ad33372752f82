"""Editing a document in place: a few values change, and everything else stays as its author wrote it.

Where that cannot be (aliases, a task that a loop makes, a Flux topology) the document is written anew instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from .canonical import canonical_config, canonical_json
from .dataflow import Dataflow
from .documents import Format, dump_document, read_document, to_document
from .errors import InvalidDataflow
from .graph_edits import GraphNotEditable, configure_task, editable, written_task
from .positions import UnreadableDocument
from .task_types import TaskTypes
from .text_changes import applied, document_value, text_changes

Values = Mapping[str, Mapping[str, Any]]  # by task id and parameter; a source's rate as ``rate_per_s``


@dataclass(frozen=True, slots=True)
class Edited:
    """The text, and whether it is the author's but for the values."""

    text: str
    in_place: bool


def with_values(text: str, values: Values, *, meant: Dataflow, format: Format, task_types: TaskTypes) -> Edited:
    """A document with other values for some parameters.

    Parameters
    ----------
    text : str
        A valid document.
    meant : Dataflow
        The document afterwards: reading the result gives it, up to the spelling of configs.
    """
    with suppress(GraphNotEditable, InvalidDataflow, UnreadableDocument):
        document = editable(document_value(text, format))
        for task_id, stated in values.items():
            written_task(document, task_id)
            document = configure_task(document, task_id, {name: _short(value) for name, value in stated.items()})
        changes = text_changes(text, document, format)
        if changes is not None:
            edited = applied(text, changes)
            if _are_equal(read_document(edited, task_types=task_types, format=format), meant, task_types):
                return Edited(edited, in_place=True)
    return Edited(dump_document(meant, format), in_place=False)


def _are_equal(dataflow: Dataflow, other: Dataflow, task_types: TaskTypes) -> bool:
    def spelled(dataflow: Dataflow) -> str:
        tasks = tuple(
            replace(task, config=canonical_config(task_types[task.type], task.config)) for task in dataflow.tasks)
        return canonical_json(to_document(replace(dataflow, tasks=tasks)))

    return spelled(dataflow) == spelled(other)


def _short(value: Any) -> Any:
    """A whole number without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
