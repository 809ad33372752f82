"""Editing a document in place: a few values change, and everything else stays as its author wrote it.

Places come from YAML's own parser, which reads JSON too. What was edited is read again and held against what was meant;
where that fails (aliases, values over several lines, a Flux topology) the document is written anew instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from .canonical import RATE_KEY, canonical_config, canonical_json
from .dataflow import Dataflow
from .documents import Format, dump_document, read_document, to_document
from .errors import InvalidDataflow
from .task_types import TaskTypes

LONGEST_EDITED = 256 * 1024  # characters; longer ones are written anew
Values = Mapping[str, Mapping[str, Any]]  # by task id and parameter; a source's rate as ``rate_per_s``


@dataclass(frozen=True, slots=True)
class Edited:
    """The text, and whether it is the author's but for the values."""

    text: str
    in_place: bool


class _Elsewhere(Exception):
    """A value stands where it cannot be replaced by itself."""


def with_values(text: str, values: Values, *, meant: Dataflow, format: Format, task_types: TaskTypes) -> Edited:
    """A document with other values for some parameters.

    Parameters
    ----------
    text : str
        A valid document.
    meant : Dataflow
        What the document says afterwards: reading the result gives it, up to the spelling of configs.
    """
    try:
        edited = _edited(text, values, format)
        if _same(read_document(edited, task_types=task_types, format=format), meant, task_types):
            return Edited(edited, in_place=True)
    except (_Elsewhere, InvalidDataflow, yaml.YAMLError):
        pass
    return Edited(dump_document(meant, format), in_place=False)


def _same(dataflow: Dataflow, other: Dataflow, task_types: TaskTypes) -> bool:
    def spelled(dataflow: Dataflow) -> str:
        tasks = tuple(
            replace(task, config=canonical_config(task_types[task.type], task.config)) for task in dataflow.tasks)
        return canonical_json(to_document(replace(dataflow, tasks=tasks)))

    return spelled(dataflow) == spelled(other)


def _edited(text: str, values: Values, format: Format) -> str:
    if len(text) > LONGEST_EDITED:
        raise _Elsewhere
    # JSON may be indented by tabs, which YAML's parser refuses; inside of JSON's strings there are none.
    root = yaml.compose(text.replace("\t", " ") if format == "json" else text, Loader=yaml.SafeLoader)
    tasks = {_child(task, "id").value: task for task in _child(root, "tasks").value}
    edits: list[tuple[int, int, str]] = []
    for task_id, changes in values.items():
        if task_id not in tasks:  # of an iteration of a loop, or of a stream that is split
            raise _Elsewhere
        config = {name: value for name, value in changes.items() if name != RATE_KEY}
        if config:
            edits += _config_edits(tasks[task_id], config, format)
        if RATE_KEY in changes:
            edits.append(_rate_edit(root, tasks[task_id], task_id, changes[RATE_KEY]))
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _config_edits(task: yaml.Node, values: Mapping[str, Any], format: Format) -> list[tuple[int, int, str]]:
    config = _child(task, "config")
    if config is None:
        inner = ", ".join(_entry(name, value, format) for name, value in values.items())
        key = '"config"' if format == "json" else "config"
        return [_added(task, f"{key}: {{{inner}}}")]
    if not isinstance(config, yaml.MappingNode):
        raise _Elsewhere
    edits, missing = [], []
    for name, value in values.items():
        node = _child(config, name)
        if node is None:
            missing.append(_entry(name, value, format))
        else:
            edits.append(_replaced(node, value))
    return [*edits, _added(config, ", ".join(missing))] if missing else edits


def _rate_edit(root: yaml.Node, task: yaml.Node, task_id: str, rate: float) -> tuple[int, int, str]:
    rates = _child(root, "rates")
    node = _child(rates, task_id) if isinstance(rates, yaml.MappingNode) else None
    node = node or _child(task, "rate")
    if node is None:
        raise _Elsewhere
    return _replaced(node, rate)


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        raise _Elsewhere
    return next((value for name, value in node.value if name.value == key), None)


def _replaced(node: yaml.Node, value: Any) -> tuple[int, int, str]:
    """One value for another, where it ends is known: a block's end lies somewhere in the lines behind it."""
    if not (isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">")) and not getattr(
        node, "flow_style", False
    ):
        raise _Elsewhere
    return node.start_mark.index, node.end_mark.index, _written(value)


def _added(mapping: yaml.MappingNode, entry: str) -> tuple[int, int, str]:
    """An entry more in a mapping: before its closing brace, or on a line of its own behind the last value."""
    if mapping.flow_style:
        end = mapping.end_mark.index - 1
        return (mapping.value[-1][1].end_mark.index,) * 2 + (f", {entry}",) if mapping.value else (end, end, entry)
    first, last = mapping.value[0][0], mapping.value[-1][1]
    if (not isinstance(last, yaml.ScalarNode) and not last.flow_style) or (", " in entry and "{" not in entry):
        raise _Elsewhere
    end = last.end_mark.index
    return end, end, f"\n{' ' * first.start_mark.column}{entry}"


def _entry(name: str, value: Any, format: Format) -> str:
    return f"{json.dumps(name) if format == 'json' else name}: {_written(value)}"


def _written(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False)
