"""Documents: a dataflow as text (JSON, YAML or Storm Flux YAML) to a validated value, and back.

``docs/dataflow_format.md`` describes the format and lists the codes of all problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Literal

import yaml

from .alternates import ALTERNATES, DYNAMIC_KEYS, LEARNED, dynamic_config, in_waves, is_dynamic
from .bounds import DOCUMENT_BYTES
from .canonical import canonical_config, canonical_json, plain
from .column_checks import TaskColumns, columns_by_task
from .columns import ColumnsOf
from .dataflow import Dataflow, Stream, Task
from .dataflow_goals import goals_in, goals_json
from .draft import DraftReader
from .draft_values import Draft, DraftTask
from .duplicates import deduplicate, equivalent_tasks
from .errors import InvalidDataflow, WeirError
from .flux import is_flux, read_flux, type_remedy
from .graph_checks import check_graph
from .json_text import read_json
from .latency_limits import Limits, from_json, to_json
from .latency_reading import read_latency
from .paths import path_in
from .positions import TURNED, TURNING, Problems, TextPosition, UnreadableDocument, listed, place_in
from .task_types import SWITCHING, WAVE, TaskType, TaskTypes
from .yaml_text import read_yaml, resolve_plain

Format = Literal["json", "yaml"]
ConfigCheck = Callable[[TaskType, Mapping[str, Any]], WeirError | None]


def read_document(
    text: str | bytes, *, task_types: TaskTypes, format: Format | None = None,
    check_config: ConfigCheck | None = None, columns_of: ColumnsOf | None = None,
) -> Dataflow:
    """Read and validate a submitted document.

    Parameters
    ----------
    text : str or bytes
        JSON, YAML or a Storm Flux topology in YAML; bytes are UTF-8.
    format : "json" or "yaml", optional
        If None, a document that begins as a JSON object is read as JSON, any other as YAML.
    check_config : callable, optional
        A task type's own check of a config that is well typed (a range upside down, a file that is not there): the
        error that it finds, or None.
    columns_of : callable, optional
        Gives the columns of a task's output from those of its inputs; raises an error for a missing column, or for a
        type that the task cannot read.

    Returns
    -------
    Dataflow
        Valid, acyclic and de-duplicated. Configs are those of the document, without defaults.

    Raises
    ------
    InvalidDataflow
        With every problem found, each with its place and remedy, in document order; nothing else is ever raised.
    """
    problems = Problems()
    try:
        dataflow, suggestion = _read(text, format, problems, task_types, check_config, columns_of)
    except UnreadableDocument:
        dataflow, suggestion = None, None
    if dataflow is None or problems:
        raise InvalidDataflow(problems=problems.in_order(), suggestion=suggestion)
    return dataflow


def columns_of_document(
    text: str | bytes, *, task_types: TaskTypes, columns_of: ColumnsOf, format: Format | None = None
) -> dict[str, TaskColumns]:
    """The columns that each task of a document reads and gives, as far as it can be read; for whoever is writing it."""
    problems = Problems()
    try:
        return columns_by_task(_draft(text, format, problems, task_types), columns_of)
    except UnreadableDocument:
        return {}


def read_limits(
    text: str, *, tasks: Collection[str], streams: Collection[tuple[str, str]]
) -> Limits | None:
    """The latency limits that a text asks for, as they stand in a document under ``latency``; None where it is empty.

    Parameters
    ----------
    text : str
        JSON or YAML: a time, ``none``, a mapping or a list of these.
    """
    problems = Problems()
    limits = None
    with suppress(UnreadableDocument):
        limits = read_latency(read_yaml(_decoded(text, problems), problems), problems, tasks=tasks, streams=streams)
    if problems:
        raise InvalidDataflow(problems=problems.in_order())
    return limits


def dataflow_from_json(document: Mapping[str, Any]) -> Dataflow:
    """The dataflow of a document that `to_document` made; nothing of it is checked again.

    It was validated when it was submitted. What has been accepted stays readable when its task types are changed or
    are no longer installed.
    """
    return Dataflow(
        name=document["name"],
        description=document.get("description", ""),
        visibility=document.get("visibility", "shared"),
        tasks=tuple(
            Task(task["id"], *type_and_config(task, switching=document.get(SWITCHING)), task.get("chain") or "allowed")
            for task in document["tasks"]),
        streams=tuple(
            Stream(stream["from"], stream["to"], _optional_float(stream.get("selectivity")))
            for stream in document["streams"]
        ),
        rates_per_s={task_id: float(rate) for task_id, rate in document.get("rates", {}).items()},
        latency=from_json(document.get("latency")),
        goals=goals_in(document.get("goals")),
    )


def to_document(dataflow: Dataflow) -> dict[str, Any]:
    """The dataflow as the JSON value that `read_document` reads; what is not stated stays out."""
    document: dict[str, Any] = {"name": dataflow.name}
    if dataflow.description:
        document["description"] = dataflow.description
    if dataflow.visibility != "shared":
        document["visibility"] = dataflow.visibility
    document["tasks"] = [
        {"id": task.id} | _way_of(task) | ({} if task.chain == "allowed" else {"chain": task.chain})
        for task in dataflow.tasks
    ]
    document["streams"] = [
        {"from": stream.source, "to": stream.target}
        | ({} if stream.selectivity is None else {"selectivity": stream.selectivity})
        for stream in dataflow.streams
    ]
    if any(in_waves(task.type, task.config) for task in dataflow.tasks):
        document[SWITCHING] = WAVE
    if dataflow.rates_per_s:
        document["rates"] = dict(dataflow.rates_per_s)
    if dataflow.latency is not None:
        document["latency"] = to_json(dataflow.latency)
    if dataflow.goals is not None:
        document["goals"] = goals_json(dataflow.goals)
    return document


def type_and_config(stated: Mapping[str, Any], *, switching: str | None = None) -> tuple[str, Mapping[str, Any]]:
    """The type and the config of a task as a stored document states it; of one with alternates, the type of these, and
    how the document's tasks switch."""
    if ALTERNATES in stated:
        return dynamic_config(stated, switching=switching)
    return stated["type"], stated.get("config") or {}


def _way_of(task: Task) -> dict[str, Any]:
    """The type and config of a task, or its alternates, as in a document: a type and a config, or alternates."""
    if is_dynamic(task.type):
        stated = {key: task.config.get(key) for key in DYNAMIC_KEYS}
        return {key: plain(value) for key, value in stated.items() if value or (key == LEARNED and value is not None)}
    return {"type": task.type} | ({"config": plain(task.config)} if task.config else {})


def dump_document(dataflow: Dataflow, format: Format = "yaml") -> str:
    """The dataflow as text; reading it gives the same dataflow."""
    document = to_document(dataflow)
    if format == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Writes YAML that means the same by YAML 1.1 and by the core schema that we read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        is_plain = text.isprintable() and text != "<<" and isinstance(resolve_plain(text), str)
    except OverflowError:
        is_plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent_text)


def _read(
    text: str | bytes, format: Format | None, problems: Problems, task_types: TaskTypes,
    check_config: ConfigCheck | None, columns_of: ColumnsOf | None,
) -> tuple[Dataflow | None, str | None]:
    text = _decoded(text, problems)
    format = format or _format_of(text)
    draft = _draft(text, format, problems, task_types)
    check_graph(draft, problems)
    if check_config is not None and not problems:
        written_once = {task.position: task for task in reversed(draft.tasks.values())}  # each iteration has them
        for task in reversed(written_once.values()):
            steps = [(way, step) for way in task.ways for step in way.steps]
            for way, step in [*steps, *([(task, task)] if task.alternates else [])]:
                if problem := check_config(step.type, canonical_config(step.type, step.config)):
                    alternate_node = task.alternates.get(str(problem.facts.get("alternate")), step)
                    within = problems if step is way else problems.within(way.where, way.id)
                    within.add(
                        problem.code, _place_of(problem, alternate_node, text), problem.message, problem.remedy,
                        task_id=way.id)
    if columns_of is not None and not problems:
        columns_by_task(draft, columns_of, problems)
    if problems:
        return None, None
    dataflow = _built(draft)
    _check_paths(draft, problems)
    return dataflow, _check_duplicates(dataflow, draft, problems, task_types, format)


def _place_of(problem: WeirError, task: DraftTask, text: str) -> TextPosition:
    """The position of a problem with a task: where its guard cannot be read, or where the task is named."""
    guard, column = problem.facts.get("guard"), problem.facts.get("column")
    for condition in task.conditions if isinstance(column, int) else ():
        if " ".join(condition.value.split())[:len(str(guard))] == guard:
            return place_in(text, condition, column)
    return task.position


def _draft(text: str | bytes, format: Format | None, problems: Problems, task_types: TaskTypes) -> Draft:
    text = _decoded(text, problems)
    is_json = (format or _format_of(text)) == "json"
    root = read_json(text, problems) if is_json else read_yaml(text, problems)
    flux = is_flux(root)
    if flux:
        root = read_flux(root, problems, task_types=task_types)
    return DraftReader(problems, task_types=task_types, type_remedy=type_remedy if flux else None).read(root)


def _decoded(text: str | bytes, problems: Problems) -> str:
    data = text
    if isinstance(text, str):
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            before = text[: error.start]
            raise problems.stop(
                "invalid_unicode", _position_after(before), "The text holds half of a surrogate pair.",
                "Save it as UTF-8.",
            ) from None
    if len(data) > DOCUMENT_BYTES.most:
        raise problems.stop(
            "too_large", TextPosition(1, 1), f"The file has {len(data):,} bytes; {DOCUMENT_BYTES.most:,} may be.",
            "Split the dataflow.",
        )
    if (message_and_remedy := _MARKED.get(data[:2])) is not None:
        raise problems.stop("invalid_unicode", TextPosition(1, 1), *message_and_remedy)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise problems.stop(
            "invalid_unicode", _position_after(data[: error.start].decode(errors="replace")),
            f"The file is not UTF-8: byte 0x{data[error.start]:02x} cannot stand here.", "Save it as UTF-8.",
        ) from None
    if "\0" in text:
        raise problems.stop(
            "invalid_unicode", _position_after(text[: text.index("\0")]), "The file holds a null character.",
            "Save it as UTF-8 text.",
        )
    if (turning := TURNING.search(text)) is not None:  # comments of YAML are read as well
        raise problems.stop("invalid_unicode", _position_after(text[: turning.start()]), *TURNED)
    return text


_UTF_16 = ("The file is UTF-16.", "Save it as UTF-8.")
_MARKED = {  # what is no text in UTF-8, by how it begins
    b"\x1f\x8b": ("The file is packed by gzip.", "Unpack it: gunzip FILE."), b"\xff\xfe": _UTF_16, b"\xfe\xff": _UTF_16}


def _position_after(before: str) -> TextPosition:
    return TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _format_of(text: str) -> Format:
    """JSON where it begins as JSON objects and lists do; a YAML flow mapping has plain keys."""
    start = text.lstrip()
    begins_json = start[:1] == "[" or (start[:1] == "{" and start[1:].lstrip()[:1] in ('"', "}", ""))
    return "json" if begins_json else "yaml"


def _optional_float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _built(draft: Draft) -> Dataflow:
    return Dataflow(
        name=draft.name,
        description=draft.description,
        visibility=draft.visibility,
        tasks=tuple(Task(task.id, task.type.name, task.config, task.chain) for task in draft.tasks.values()),
        streams=tuple(
            Stream(stream.source.value, stream.target.value, stream.selectivity) for stream in draft.streams
        ),
        rates_per_s=draft.rates_per_s,
        latency=draft.latency,
        goals=draft.goals,
    )


def _check_paths(draft: Draft, problems: Problems) -> None:
    """Report tasks of a path that do the same."""
    for way in (way for task in draft.tasks.values() for way in task.alternates.values() if way.path is not None):
        path, steps = path_in(way.config), {step.id: step for step in way.steps}
        labels = {
            name: canonical_json([step.type.name, canonical_config(step.type, step.config)])
            for name, step in steps.items()}
        for task_id, first in path.numbered(labels)[1].items():
            problems.within(way.where, way.id).add(
                "equivalent_tasks", steps[task_id].position, f"Tasks {first} and {task_id} do the same.",
                f"Let {first} serve for both.")


def _check_duplicates(
    dataflow: Dataflow, draft: Draft, problems: Problems, task_types: TaskTypes, format: Format
) -> str | None:
    """Report equivalent tasks and return the document without them; None where there are none."""
    twins = equivalent_tasks(dataflow, task_types=task_types)
    if not twins:
        return None
    with suppress(UnreadableDocument):  # more than are listed: the suggestion settles them all
        children = dataflow.children()
        for task_id, first in twins.items():
            remedy = f"Let {first} serve for both; the de-duplicated dataflow is attached."
            if shared_readers := sorted(set(children[task_id]).intersection(children[first])):
                remedy += f" {listed(shared_readers, ', ')} then receives each event once, not twice."
            problems.add(
                "equivalent_tasks", draft.tasks[task_id].position,
                f"Tasks {first} and {task_id} do the same: their types, configs and all that is upstream are equal.",
                remedy, task_id=task_id,
            )
    return dump_document(deduplicate(dataflow, task_types=task_types), format)
