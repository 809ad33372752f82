"""The tasks, streams and rates of a document, as far as they can be read, before the graph that they form is checked.

The structure is checked by the schema (`structure`). What it refuses is passed over here, so that one reading tells
what is wrong with everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from .alternates import (
    ALTERNATES,
    BEGIN,
    BY,
    GUARDS,
    LEARNED,
    SHARED,
    TaskAlternate,
    dynamic_config,
    is_dynamic,
    why_no_alternate,
    why_not_one_state,
)
from .bounds import DOCUMENT_QUERIES, DYNAMIC_TASKS
from .canonical import canonical_config
from .dataflow import Chaining, Visibility
from .latency_limits import Limits
from .latency_reading import read_latency
from .names import described, not_plain
from .parameters import check_config
from .positions import DocumentNode, Problems, TextPosition, UnreadableDocument, shown
from .schema import dataflow_schema
from .structure import check_structure
from .task_types import TaskType, TaskTypes

_TASK_ID = re.compile(dataflow_schema()["$defs"]["id"]["pattern"].strip("^$"))


@dataclass(slots=True)
class DraftTask:
    """A task as it stands in the document, or one ``alternate`` of it; ``type`` is None where its type is not known."""

    id: str
    type: TaskType | None
    config: dict[str, object]
    position: TextPosition
    parameters: dict[str, DocumentNode] = field(default_factory=dict)  # where its config's values stand
    chain: Chaining = "allowed"
    alternate: str = ""
    alternates: dict[str, DraftTask] = field(default_factory=dict)

    @property
    def ways(self) -> list[DraftTask]:
        """How it may be done: its alternates, or itself."""
        return list(self.alternates.values()) or [self]


@dataclass(slots=True)
class DraftStream:
    """A stream as it stands in the document; an end is None where it is missing or no text."""

    source: DocumentNode | None
    target: DocumentNode | None
    selectivity: float | None
    position: TextPosition


@dataclass(slots=True)
class Draft:
    """What could be read of a document."""

    name: str = ""
    description: str = ""
    visibility: Visibility = "shared"
    tasks: dict[str, DraftTask] = field(default_factory=dict)
    streams: list[DraftStream] = field(default_factory=list)
    rates_per_s: dict[str, float] = field(default_factory=dict)
    latency: Limits | None = None
    invalid_ids: set[str] = field(default_factory=set)  # streams may name them


class DraftReader:
    """Reads a document's nodes into a draft and reports what is wrong with any of them by itself.

    Parameters
    ----------
    task_types : TaskTypes
        The task types that a document may use.
    type_remedy : callable, optional
        What to do about a type of that name, where there is none and none is like it.
    """

    def __init__(self, problems: Problems, *, task_types: TaskTypes, type_remedy: Callable[[str], str] | None) -> None:
        self.problems = problems
        self.task_types = task_types
        self.type_remedy = type_remedy
        self.draft = Draft()
        self.parsed_characters = 0
        self.dynamic_tasks = 0

    def read(self, root: DocumentNode) -> Draft:
        """The draft of a document; raises Unreadable where there is none."""
        if root.value is None:
            raise self.problems.stop(
                "empty", root.position, "The document is empty.", "Start from one of the samples: name, tasks, streams."
            )
        check_structure(root, self.problems)
        if not root.is_mapping:
            raise UnreadableDocument
        document = root.value
        self.draft.name = _text(document.get("name")) or ""
        if (place := not_plain(self.draft.name)) is not None:
            self.problems.add(
                "name_not_plain", document["name"].position,
                f"The name has {described(self.draft.name[place])} at character {place + 1}.",
                "Take it out: names hold what can be seen, and single spaces of the usual kind.")
        self.draft.description = _text(document.get("description")) or ""
        self.draft.visibility = _text(document.get("visibility")) or "shared"
        for task in _mappings(document.get("tasks")):
            self._task(task)
        for stream in _mappings(document.get("streams")):
            ends = [end if _text(end) is not None else None for end in map(stream.value.get, ("from", "to"))]
            self.draft.streams.append(DraftStream(*ends, _number(stream.value.get("selectivity")), stream.position))
        rates = document.get("rates")
        if rates is not None and rates.is_mapping:
            self._rates(rates)
        self.draft.latency = read_latency(
            document.get("latency"), self.problems, tasks=self.draft.tasks, streams=self._ends())
        return self.draft

    def _ends(self) -> set[tuple[str, str]]:
        return {(stream.source.value, stream.target.value) for stream in self.draft.streams
                if stream.source is not None and stream.target is not None}

    def _task(self, node: DocumentNode) -> None:
        stated_id, config, rate = (node.value.get(key) for key in ("id", "config", "rate"))
        task_id = self._task_id(stated_id)
        if ALTERNATES in node.value:
            self._dynamic_task(node, task_id)
            return
        if GUARDS in node.value:
            self.problems.add(
                "guards_without_alternates", node.keys[GUARDS], "Only a task with alternates has guards.",
                "Let it list alternates, or leave guards out.", task_id=task_id)
        task_type = self._task_type(node.value.get("type"), task_id)
        if config is None or config.value is None:
            config = DocumentNode({}, node.position)
        if task_type is not None and config.is_mapping:
            named = task_id or shown(_text(stated_id) or "") or "without an id"  # as it calls itself, a double's too
            check_config(task_type, config, self.problems, task_id=named)
            self._count_parsed(task_type, config, named)
        if task_id is None:
            return
        plain = config.plain() if config.is_mapping else {}
        parameters = config.value if config.is_mapping else {}
        self.draft.tasks[task_id] = DraftTask(
            task_id, task_type, plain, stated_id.position, parameters, _text(node.value.get("chain")) or "allowed")
        if rate is not None:
            self._rate(task_id, rate)

    def _dynamic_task(self, node: DocumentNode, task_id: str | None) -> None:
        for key in ("type", "config"):
            if key in node.value:
                self.problems.add(
                    "type_beside_alternates", node.keys[key], f"A task with alternates has no {key} of its own.",
                    f"Give the {key} to one of its alternates.", task_id=task_id)
        self.dynamic_tasks += 1
        if self.dynamic_tasks > DYNAMIC_TASKS.most:
            raise self.problems.stop(
                "too_many_dynamic_tasks", node.keys[ALTERNATES],
                f"More than {DYNAMIC_TASKS.most} tasks have alternates.",
                "Split the dataflow, or give tasks that are always done the same way a type and a config.")
        alternates: dict[str, DraftTask] = {}
        for number, stated in enumerate(_mappings(node.value[ALTERNATES])):
            way = self._alternate(stated, task_id, begin=_text(node.value.get(BEGIN)))
            if way.alternate in alternates:
                self.problems.add(
                    "duplicate_alternate", way.position, f"Two alternates are called {way.alternate}.",
                    "Give each alternate of a task a name of its own.", task_id=task_id)
            alternates[way.alternate or f"{number + 1}"] = way
        if task_id is None:
            return
        parameters = {key: node.value[key] for key in (ALTERNATES, GUARDS, BEGIN, BY, LEARNED) if key in node.value}
        kind, config = dynamic_config({key: parameter.plain() for key, parameter in parameters.items()})
        self._check_state(node, list(alternates.values()), task_id)
        self.draft.tasks[task_id] = DraftTask(
            task_id, self.task_types[kind], config, node.value["id"].position, parameters,
            _text(node.value.get("chain")) or "allowed", alternates=alternates)
        if (rate := node.value.get("rate")) is not None:
            self._rate(task_id, rate)

    def _check_state(self, node: DocumentNode, ways: Sequence[DraftTask], task_id: str) -> None:
        """Whether alternates can go on with one state, where they are to, and be switched by such a key."""
        begin, by = _text(node.value.get(BEGIN)), node.value.get(BY)
        if by is not None and begin != SHARED:
            self.problems.add(
                "no_shared_state", node.keys[BY], "Alternates are switched by key only where they share their state.",
                "Say begin: shared, or leave by away.", task_id=task_id)
        if LEARNED in node.value and not (by is not None and by.value):
            self.problems.add(
                "no_shared_state", node.keys[LEARNED], "A learned guard chooses for each key, and no key is named.",
                "Say by what key alternates are switched, by.", task_id=task_id)
        if begin != SHARED or not ways or self.problems:  # configs are compared that can be read
            return
        first, *others = (TaskAlternate(way.alternate, way.type.name, way.config) for way in ways)
        for other, way in zip(others, ways[1:], strict=True):
            if why_not := why_not_one_state(first, other, ways[0].type):
                self.problems.add(
                    "no_shared_state", way.position,
                    f"Alternates {first.name} and {other.name} cannot share their state: they {why_not}.",
                    f"Let them be alike but for {', '.join(ways[0].type.shares_state or ('nothing',))}; or say begin: "
                    "fresh.", task_id=task_id)
        key = ways[0].type.key_columns(canonical_config(ways[0].type, ways[0].config))
        for column in by.value if by is not None and by.is_list else ():
            if (name := _text(column)) is not None and name not in key:
                near = self.problems.nearest(name, key)
                self.problems.add(
                    "no_shared_state", column.position,
                    f"Alternates cannot be switched by {shown(name)}: they keep their state by {', '.join(key)}.",
                    f"Did you mean {near}?" if near else "Name columns of the key of all alternates.", task_id=task_id)

    def _alternate(self, node: DocumentNode, task_id: str | None, *, begin: str | None) -> DraftTask:
        stated_type, config = node.value.get("type"), node.value.get("config")
        name = _text(node.value.get("name")) or ""
        task_type = self._task_type(stated_type, task_id)
        if config is None or config.value is None:
            config = DocumentNode({}, node.position)
        if task_type is not None and (why_not := why_no_alternate(task_type, begin=begin)):
            is_unsaid = task_type.stateful and begin is None and task_type.can_move
            self.problems.add(
                "no_alternate", stated_type.position,
                f"Alternate {name} cannot be of type {task_type.name}: it {why_not}.",
                "Say begin: fresh of the task, or begin: shared." if is_unsaid else
                "Let all alternates keep state or none, and let another task do what reaches beyond Weir.",
                task_id=task_id)
        if begin is not None and config.is_mapping and config.value.get("idle") is not None:
            self.problems.add(
                "no_alternate", config.keys["idle"], f"Alternate {name} works in silence, which alternates cannot.",
                "Leave idle away.", task_id=task_id)
        if task_type is not None and config.is_mapping:
            named = task_id or "without an id"
            check_config(task_type, config, self.problems, task_id=named)
            self._count_parsed(task_type, config, named)
        self._count(node.value.get("guard"), task_id or "without an id")
        place = node.value["name"].position if "name" in node.value else node.position
        return DraftTask(
            task_id or "", task_type, config.plain() if config.is_mapping else {}, place,
            config.value if config.is_mapping else {}, alternate=name)

    def _count_parsed(self, task_type: TaskType, config: DocumentNode, task_id: str) -> None:
        for parameter in task_type.parameters:
            if parameter.expression or parameter.query:
                self._count(config.value.get(parameter.name), task_id)

    def _count(self, node: DocumentNode | None, task_id: str) -> None:
        text = _text(node)
        self.parsed_characters += len(text or "")
        if node is not None and text and self.parsed_characters > DOCUMENT_QUERIES.most:
            raise self.problems.stop(
                "too_long", node.position,
                f"The queries and guards up to task {task_id} have more than {DOCUMENT_QUERIES.most:,} characters.",
                "Split the dataflow, or let tasks share what several of them compute.")

    def _task_id(self, node: DocumentNode | None) -> str | None:
        """A task's id; None where it is missing, invalid, or another task's."""
        task_id = _text(node)
        if task_id is None:
            return None
        if _TASK_ID.fullmatch(task_id) is None:
            self.draft.invalid_ids.add(task_id)
            return None
        if task_id in self.draft.tasks:
            first = self.draft.tasks[task_id].position
            self.problems.add(
                "duplicate_id", node.position, f"Two tasks have the id {task_id}; the first is on line {first.line}.",
                "Give each task an id of its own.", task_id=task_id,
            )
            return None
        return task_id

    def _task_type(self, node: DocumentNode | None, task_id: str | None) -> TaskType | None:
        name = _text(node)
        if name is None or (name in self.task_types and not is_dynamic(name)):
            return self.task_types.get(name)
        near = self.problems.nearest(name, self.task_types)
        remedy = self.type_remedy(name) if self.type_remedy else "The task library lists the types there are."
        self.problems.add(
            "unknown_task_type", node.position, f"There is no task type {shown(name) or 'without a name'}.",
            f"Did you mean {near}?" if near else remedy, task_id=task_id,
        )
        return None

    def _rates(self, rates: DocumentNode) -> None:
        for task_id, rate in rates.value.items():
            if task_id in self.draft.tasks or task_id in self.draft.invalid_ids:
                self._rate(task_id, rate, key=rates.keys[task_id])
                continue
            near = self.problems.nearest(task_id, self.draft.tasks)
            self.problems.add(
                "unknown_task", rates.keys[task_id],
                f"There is a rate for task {shown(task_id)}, which does not exist.",
                f"Did you mean {near}?" if near else "Name a source of this dataflow.",
            )

    def _rate(self, task_id: str, node: DocumentNode, *, key: TextPosition | None = None) -> None:
        task, rate = self.draft.tasks.get(task_id), _number(node)
        if task is not None and task.type is not None and task.type.kind != "source":
            self.problems.add(
                "rate_of_no_source", key or node.position,
                f"Task {task_id} is a {task.type.kind}; only sources have a rate.",
                "Remove the rate: it follows from the rates of the sources.", task_id=task_id,
            )
        elif rate is not None and self.draft.rates_per_s.setdefault(task_id, rate) != rate:
            self.problems.add(
                "two_rates", key or node.position, f"Source {task_id} has two different rates.", "Keep one of the two.",
                task_id=task_id,
            )


def _text(node: DocumentNode | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None


def _number(node: DocumentNode | None) -> float | None:
    is_number = node is not None and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return float(node.value) if is_number else None


def _mappings(node: DocumentNode | None) -> Iterable[DocumentNode]:
    """The elements of a list that are mappings."""
    return [element for element in node.value if element.is_mapping] if node is not None and node.is_list else []
