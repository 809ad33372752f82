"""The structure of a document: which tasks and streams it has, before anything is said about the graph they form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .dataflow import Visibility
from .parameters import check_config
from .positions import Node, Place, Problems, Unreadable, shown
from .task_types import TaskType, TaskTypes

MAX_TASKS = 2_000
MAX_STREAMS = 20_000
MAX_RATE_PER_S = 10_000_000
LONGEST_NAME = 100
LONGEST_DESCRIPTION = 4_000
TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DOCUMENT_KEYS = ("name", "description", "visibility", "tasks", "streams", "rates", "$schema")
TASK_KEYS = ("id", "type", "config", "rate")
STREAM_KEYS = ("from", "to", "selectivity")
VISIBILITIES: tuple[Visibility, ...] = ("shared", "private")


@dataclass(slots=True)
class DraftTask:
    """A task as it stands in the document; ``type`` is None where its type is not known."""

    id: str
    type: TaskType | None
    config: dict[str, object]
    place: Place


@dataclass(slots=True)
class DraftStream:
    """A stream as it stands in the document; an end is None where it is missing or no text."""

    source: Node | None
    target: Node | None
    selectivity: float | None
    place: Place


@dataclass(slots=True)
class Draft:
    """What could be read of a document."""

    name: str = ""
    description: str = ""
    visibility: Visibility = "shared"
    tasks: dict[str, DraftTask] = field(default_factory=dict)
    streams: list[DraftStream] = field(default_factory=list)
    rates_per_s: dict[str, float] = field(default_factory=dict)
    unread_ids: set[str] = field(default_factory=set)  # ids that are invalid: streams may name them


class DraftReader:
    """Reads a document's nodes into a draft and reports what is wrong with any of them by itself."""

    def __init__(self, problems: Problems, *, task_types: TaskTypes, type_remedy: Callable[[str], str] | None) -> None:
        self.problems = problems
        self.task_types = task_types
        self.type_remedy = type_remedy
        self.draft = Draft()

    def read(self, root: Node) -> Draft:
        if root.value is None:
            raise self.problems.stop(
                "empty", root.place, "The document is empty.", "Start from one of the samples: name, tasks, streams."
            )
        document = self.mapping(root, DOCUMENT_KEYS, "A dataflow", required=("name", "tasks", "streams"))
        if document is None:
            raise Unreadable
        self.draft.name = self.text(document.get("name"), "The name", longest=LONGEST_NAME, empty=False)
        self.draft.description = self.text(document.get("description"), "The description", longest=LONGEST_DESCRIPTION)
        self.visibility(document.get("visibility"))
        for node in self.elements(document.get("tasks"), "tasks", MAX_TASKS):
            self.task(node)
        for node in self.elements(document.get("streams"), "streams", MAX_STREAMS):
            self.stream(node)
        self.rates(document.get("rates"))
        return self.draft

    def mapping(
        self, node: Node, known: tuple[str, ...], what: str, *, required: tuple[str, ...] = ()
    ) -> dict[str, Node] | None:
        """A mapping's values by key; None where it is no mapping. Reports unknown and missing keys."""
        if not node.is_mapping:
            self.problems.add(
                "ill_typed", node.place, f"{what} is a mapping; this is not.", f"Write one with {', '.join(required)}."
            )
            return None
        for key, place in node.keys.items():
            if key not in known:
                near = self.problems.nearest(key, known)
                self.problems.add(
                    "unknown_key", place, f"{what} has no key {shown(key) or 'without a name'}.",
                    f"Did you mean {near}?" if near else f"It has {', '.join(known)}.",
                )
        for key in required:
            if key not in node.value:
                self.problems.add("missing_key", node.place, f"{what} needs {key}.", f"Add {key}.")
        return node.value

    def elements(self, node: Node | None, what: str, most: int) -> list[Node]:
        if node is None:
            return []
        if not node.is_list:
            self.problems.add("ill_typed", node.place, f"The {what} are a list; this is not.", "Write a list.")
            return []
        if len(node.value) > most:
            raise self.problems.stop(
                f"too_many_{what}", node.value[most].place, f"There are {len(node.value):,} {what}; {most:,} may be.",
                "Split the dataflow.",
            )
        if not node.value and what == "tasks":
            self.problems.add("no_tasks", node.place, "There are no tasks.", "Add a source, a sink and a stream.")
        return node.value

    def text(self, node: Node | None, what: str, *, longest: int, empty: bool = True) -> str:
        if node is None or (node.value is None and empty):
            return ""
        if not isinstance(node.value, str):
            self.problems.add("ill_typed", node.place, f"{what} is text; this is not.", "Put it into quotes.")
            return ""
        if len(node.value) > longest:
            self.problems.add(
                "too_long", node.place, f"{what} has {len(node.value):,} characters; {longest:,} may be.", "Shorten it."
            )
        elif not empty and not node.value.strip():
            self.problems.add("empty_name", node.place, f"{what} is empty.", "Say in a few words what this is.")
        return node.value

    def number(self, node: Node, what: str, *, zero: bool, most: float) -> float | None:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problems.add("ill_typed", node.place, f"{what} is a number; this is not.", "Write a number.")
        elif value < 0 or (value == 0 and not zero):
            self.problems.add(
                "not_positive", node.place, f"{what} is {shown(value)}.",
                "Write 0 or more." if zero else "Write a number greater than 0.",
            )
        elif value > most:
            self.problems.add("out_of_range", node.place, f"{what} is {shown(value)}.", f"Write {most:,} or less.")
        else:
            return float(value)
        return None

    def visibility(self, node: Node | None) -> None:
        if node is None:
            return
        if node.value in VISIBILITIES:
            self.draft.visibility = node.value
        else:
            self.problems.add(
                "not_a_choice", node.place, "The visibility is neither shared nor private.",
                "Write shared, or private to keep it from being merged with other teams' dataflows.",
            )

    def task(self, node: Node) -> None:
        task = self.mapping(node, TASK_KEYS, "A task", required=("id", "type"))
        if task is None:
            return
        task_id = self.task_id(task.get("id"))
        task_type = self.task_type(task.get("type"), task_id)
        config = task.get("config")
        if config is not None and config.value is None:
            config = None
        if config is not None and not config.is_mapping:
            self.problems.add(
                "ill_typed", config.place, "A config is a mapping; this is not.", "Write parameters by name.",
                task_id=task_id,
            )
        elif task_type is not None:
            stated = task["id"].value if "id" in task and isinstance(task["id"].value, str) else ""
            named = task_id or shown(stated) or "without an id"  # what it calls itself, though another has that id
            check_config(task_type, config or Node({}, node.place), self.problems, task_id=named)
        if task_id is None:
            return
        plain = config.plain() if config is not None and config.is_mapping else {}
        self.draft.tasks[task_id] = DraftTask(task_id, task_type, plain, task["id"].place)
        if "rate" in task:
            self.rate(task_id, task["rate"])

    def task_id(self, node: Node | None) -> str | None:
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.problems.add("ill_typed", node.place, "An id is text; this is not.", "Put the id into quotes.")
            return None
        if TASK_ID.fullmatch(node.value) is None:
            self.problems.add(
                "invalid_id", node.place, f"Id {shown(node.value) or 'without a character'} cannot be a task's.",
                "Use 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
            )
            self.draft.unread_ids.add(node.value)
            return None
        if node.value in self.draft.tasks:
            first = self.draft.tasks[node.value].place
            self.problems.add(
                "duplicate_id", node.place, f"Two tasks have the id {node.value}; the first is on line {first.line}.",
                "Give each task an id of its own.", task_id=node.value,
            )
            return None
        return node.value

    def task_type(self, node: Node | None, task_id: str | None) -> TaskType | None:
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.problems.add("ill_typed", node.place, "A type is text; this is not.", "Name a task type.")
            return None
        if node.value in self.task_types:
            return self.task_types[node.value]
        near = self.problems.nearest(node.value, self.task_types)
        remedy = self.type_remedy(node.value) if self.type_remedy else "The task library lists the types there are."
        self.problems.add(
            "unknown_task_type", node.place, f"There is no task type {shown(node.value) or 'without a name'}.",
            f"Did you mean {near}?" if near else remedy, task_id=task_id,
        )
        return None

    def stream(self, node: Node) -> None:
        stream = self.mapping(node, STREAM_KEYS, "A stream", required=("from", "to"))
        if stream is None:
            return
        ends = []
        for key in ("from", "to"):
            end = stream.get(key)
            if end is not None and not isinstance(end.value, str):
                self.problems.add(
                    "ill_typed", end.place, f"A stream's {key} is a task's id; this is not.", "Name one task."
                )
                end = None
            ends.append(end)
        selectivity = stream.get("selectivity")
        stated = None
        if selectivity is not None and selectivity.value is not None:
            stated = self.number(selectivity, "A selectivity", zero=True, most=1_000_000)
        self.draft.streams.append(DraftStream(*ends, stated, node.place))

    def rates(self, node: Node | None) -> None:
        if node is None or node.value is None:
            return
        if not node.is_mapping:
            self.problems.add(
                "ill_typed", node.place, "The rates are a mapping; this is not.", "Write events per second by source."
            )
            return
        for task_id, rate in node.value.items():
            if task_id not in self.draft.tasks and task_id not in self.draft.unread_ids:
                near = self.problems.nearest(task_id, self.draft.tasks)
                self.problems.add(
                    "unknown_task", node.keys[task_id],
                    f"There is a rate for task {shown(task_id)}, which is not there.",
                    f"Did you mean {near}?" if near else "Name a source of this dataflow.",
                )
                continue
            self.rate(task_id, rate, key=node.keys[task_id])

    def rate(self, task_id: str, node: Node, *, key: Place | None = None) -> None:
        task = self.draft.tasks.get(task_id)
        if task is not None and task.type is not None and task.type.kind != "source":
            self.problems.add(
                "rate_of_no_source", key or node.place,
                f"Task {task_id} is a {task.type.kind}; only sources have a rate.",
                "Remove the rate: it follows from the sources'.", task_id=task_id,
            )
            return
        rate = self.number(node, "A rate", zero=False, most=MAX_RATE_PER_S)
        if rate is None:
            return
        if self.draft.rates_per_s.setdefault(task_id, rate) != rate:
            self.problems.add(
                "two_rates", key or node.place, f"Source {task_id} has two different rates.", "Keep one of the two.",
                task_id=task_id,
            )
