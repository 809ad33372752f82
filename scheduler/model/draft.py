"""The tasks, streams and rates of a document, as far as they can be read, before the graph that they form is checked.

The schema (`structure`) checks the structure. Parts that it refuses are skipped here, so that one reading reports the
problems of all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .alternate_state import check_alternate_state
from .alternates import ALTERNATES, BEGIN, DYNAMIC_KEYS, GUARDS, dynamic_config, is_dynamic, why_no_alternate
from .bounds import DOCUMENT_QUERIES, DOCUMENT_TASKS, DYNAMIC_TASKS, LOOP_ITERATIONS
from .draft_values import Draft, DraftLoop, DraftStream, DraftTask
from .goals_reading import read_goals
from .graph_checks import check_graph
from .latency_reading import read_latency
from .names import described, not_plain
from .parameters import check_config
from .paths import ENDS, INPUT, OUTPUT, STREAMS, TASKS
from .positions import DocumentNode, Problems, TextPosition, UnreadableDocument, shown
from .schema import dataflow_schema
from .shorthand import unroll, write_out
from .stream_ports import PORT_KEYS
from .structure import check_structure
from .task_types import PATH, SWITCHING, WAVE, TaskType, TaskTypes

LOOP = "loop"  # the key in a document
LONGEST_ID = 64
_ENDS = {  # as the tasks of a path see what is before and behind it
    INPUT: TaskType(INPUT, "source", "What enters a path.", ""),
    OUTPUT: TaskType(OUTPUT, "sink", "What leaves it.", "")}
_TASK_ID = re.compile(dataflow_schema()["$defs"]["id"]["pattern"].strip("^$"))


class DraftReader:
    """Reads a document's nodes into a draft and reports what is wrong with any of them by itself.

    Parameters
    ----------
    type_remedy : callable, optional
        The remedy for a type of that name, where there is none and none is like it.
    """

    def __init__(self, problems: Problems, *, task_types: TaskTypes, type_remedy: Callable[[str], str] | None) -> None:
        self.problems = problems
        self.task_types = task_types
        self.type_remedy = type_remedy
        self.draft = Draft()
        self._in_waves = False
        self.parsed_characters = self.tasks_read = self.dynamic_tasks = 0

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
        if (index := not_plain(self.draft.name)) is not None:
            self.problems.add(
                "name_not_plain", document["name"].position,
                f"The name has {described(self.draft.name[index])} at character {index + 1}.",
                "Take it out: names hold what can be seen, and single spaces of the usual kind.")
        self.draft.description = _text(document.get("description")) or ""
        self.draft.visibility = _text(document.get("visibility")) or "shared"
        self._in_waves = _text(document.get(SWITCHING)) == WAVE
        self._tasks_and_streams(root)
        if self._in_waves and not any(task.alternates for task in self.draft.tasks.values()):
            self.problems.add(
                "nothing_to_switch", document[SWITCHING].position, "No task has alternates that could switch in waves.",
                "Leave switching out, or give a task alternates.")
        rates = document.get("rates")
        if rates is not None and rates.is_mapping:
            self._rates(rates)
        self.draft.latency = read_latency(
            document.get("latency"), self.problems, tasks=self.draft.tasks, streams=self._ends())
        self.draft.goals = read_goals(document.get("goals"), self.problems)
        return self.draft

    def _tasks_and_streams(self, node: DocumentNode) -> None:
        """Read what a document, a path or a loop lists; loops are unrolled, and streams that are split have a task."""
        for task in _mappings(node.value.get(TASKS)):
            self._count_tasks(1, task.position)
            self._task(task)
        for stream in _mappings(node.value.get(STREAMS)):
            ends = [end if _text(end) is not None else None for end in map(stream.value.get, ("from", "to"))]
            split = stream.value.get("split")
            self.draft.streams.append(DraftStream(
                *ends, _number(stream.value.get("selectivity")), stream.position,
                split if split is not None and split.is_mapping else None,
                {side: stream.value[side] for side in PORT_KEYS if _is_id(stream.value.get(side))}))
        write_out(self.draft, self.problems, task=self._written_out)

    def _count_tasks(self, number: int, position: TextPosition) -> None:
        self.tasks_read += number
        if self.tasks_read > DOCUMENT_TASKS.most:
            raise self.problems.stop(
                "too_many_tasks", position,
                f"There are more than {DOCUMENT_TASKS.most:,} tasks, with those of paths and all iterations of loops.",
                "Split the dataflow.")

    def _written_out(self, task_id: str, task_type: str, config: DocumentNode) -> DraftTask | None:
        """A task for which a stream says something shorter."""
        self._count_tasks(1, config.position)
        if (task_type_read := self._task_type(DocumentNode(task_type, config.position), task_id)) is None:
            return None
        check_config(task_type_read, config, self.problems, task_id=task_id)
        return DraftTask(task_id, task_type_read, config.plain(), config.position, config.value)

    def _ends(self) -> set[tuple[str, str]]:
        return {(stream.source.value, stream.target.value) for stream in self.draft.streams
                if stream.source is not None and stream.target is not None}

    def _task(self, node: DocumentNode) -> None:
        stated_id, config, rate = (node.value.get(key) for key in ("id", "config", "rate"))
        task_id = self._task_id(stated_id)
        if ALTERNATES in node.value:
            self._dynamic_task(node, task_id)
            return
        if LOOP in node.value:
            self._loop(node, task_id)
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
        for key in ("type", "config", LOOP):
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
        listed = []
        for number, stated in enumerate(_mappings(node.value[ALTERNATES])):
            way = self._alternate(stated, task_id, begin=_text(node.value.get(BEGIN)))
            if way.alternate in alternates:
                self.problems.add(
                    "duplicate_alternate", way.position, f"Two alternates are called {way.alternate}.",
                    "Give each alternate of a task a name of its own.", task_id=task_id)
            alternates[way.alternate or f"{number + 1}"] = way
            listed.append(stated.plain() | (way.config if way.path is not None else {}))
        if task_id is None:
            return
        parameters = {key: node.value[key] for key in DYNAMIC_KEYS if key in node.value}
        kind, config = dynamic_config(
            {key: parameter.plain() for key, parameter in parameters.items()} | {ALTERNATES: listed},
            switching=WAVE if self._in_waves else None)
        check_alternate_state(
            node, list(alternates.values()), self.problems, task_id=task_id, in_waves=self._in_waves)
        self.draft.tasks[task_id] = DraftTask(
            task_id, self.task_types[kind], config, node.value["id"].position, parameters,
            _text(node.value.get("chain")) or "allowed", alternates=alternates)
        if (rate := node.value.get("rate")) is not None:
            self._rate(task_id, rate)

    def _alternate(self, node: DocumentNode, task_id: str | None, *, begin: str | None) -> DraftTask:
        stated_type, config = node.value.get("type"), node.value.get("config")
        name = _text(node.value.get("name")) or ""
        self._count(node.value.get("guard"), task_id or "without an id")
        if TASKS in node.value:
            return self._path(node, task_id, name, begin=begin)
        task_type = self._task_type(stated_type, task_id)
        if config is None or config.value is None:
            config = DocumentNode({}, node.position)
        if task_type is not None:
            self._require_alternate(task_type, stated_type.position, name, task_id, begin=begin)
        if task_type is not None and config.is_mapping:
            named = task_id or "without an id"
            check_config(task_type, config, self.problems, task_id=named)
            self._count_parsed(task_type, config, named)
        position = node.value["name"].position if "name" in node.value else node.position
        return DraftTask(
            task_id or "", task_type, config.plain() if config.is_mapping else {}, position,
            config.value if config.is_mapping else {}, alternate=name, conditions=_conditions(node))

    def _require_alternate(
        self, task_type: TaskType, position: TextPosition, name: str, task_id: str | None, *, begin: str | None = None
    ) -> None:
        if why_not := why_no_alternate(task_type, begin=begin):
            is_unsaid = task_type.stateful and begin is None and task_type.can_move
            self.problems.add(
                "no_alternate", position, f"Alternate {name} cannot be of type {task_type.name}: it {why_not}.",
                "Say begin: fresh or begin: shared at the task." if is_unsaid else
                "Use another type, and let another task do what reaches beyond Weir.", task_id=task_id)

    def _path(self, node: DocumentNode, task_id: str | None, name: str, *, begin: str | None) -> DraftTask:
        """An alternate of several tasks: a draft of its own, with tasks that stand for what enters and what leaves."""
        for key in ("type", "config"):
            if key in node.value:
                self.problems.add(
                    "type_beside_alternates", node.keys[key], f"An alternate with tasks has no {key} of its own.",
                    f"Give the {key} to one of its tasks.", task_id=task_id)
        position = node.value["name"].position if "name" in node.value else node.position
        way = DraftTask(
            task_id or "", self.task_types[PATH], {}, position, alternate=name, conditions=_conditions(node))
        way.path = self._between(node, position, self.problems.within(way.where, task_id), is_path=True)
        typed_steps = [(step, step.type) for step in way.steps if step.type is not None]
        for step, kind in typed_steps:
            self._require_alternate(kind, step.position, name, task_id, begin=begin)
        way.config = {
            TASKS: [
                {"id": step.id, "type": kind.name} | ({"config": step.config} if step.config else {})
                for step, kind in typed_steps],
            STREAMS: [
                {"from": stream.source.value, "to": stream.target.value} for stream in way.path.streams
                if stream.source is not None and stream.target is not None]}
        return way

    def _loop(self, node: DocumentNode, task_id: str | None) -> None:
        """The tasks of a loop, once for each of its iterations."""
        for key in ("type", "config", "rate"):
            if key in node.value:
                self.problems.add(
                    "type_beside_alternates", node.keys[key], f"A task with a loop has no {key} of its own.",
                    f"Give the {key} to one of the loop's tasks.", task_id=task_id)
        stated = node.value[LOOP]
        if not stated.is_mapping:
            return
        name = task_id or "without an id"
        problems = self.problems.within(f"Loop {name}", task_id)
        parsed_before = self.parsed_characters
        body = self._between(stated, stated.position, problems)
        for step in body.tasks.values():
            step.chain = _text(node.value.get("chain")) or "allowed"
        check_graph(body, problems)
        for stream in body.streams:
            if (stream.source and stream.source.value, stream.target and stream.target.value) == (INPUT, OUTPUT):
                problems.add(
                    "passes_by", stream.position, "A stream goes from input to output, past the tasks of the loop.",
                    "Let a task of the loop pass these events on, such as an sql task.")
        times = _number(stated.value.get("times"))
        if task_id is None:
            return
        position = node.value["id"].position
        if problems or times is None or not 1 <= times <= LOOP_ITERATIONS.most or times % 1:
            self.draft.tasks[task_id] = DraftTask(task_id, None, {}, position)
            return
        loop = DraftLoop(task_id, int(times), position)
        names = [
            loop.in_iteration(number, step) for number in range(1, loop.times + 1) for step in body.tasks
            if step not in ENDS]
        self._count_tasks(len(names) - len(names) // loop.times, position)
        self._count_characters((self.parsed_characters - parsed_before) * (loop.times - 1), position, task_id)
        for repeated in names:
            if repeated in self.draft.tasks or len(repeated) > LONGEST_ID:
                self.problems.add(
                    "invalid_id", position, f"A task of an iteration would have the id {shown(repeated)}, "
                    f"{'which is taken' if repeated in self.draft.tasks else 'which is too long'}.",
                    "Give the loop, or its task, another id.", task_id=task_id)
                self.draft.tasks[task_id] = DraftTask(task_id, None, {}, position)
                return
        self.draft.loops[task_id] = loop
        unroll(loop, body, self.draft, problems)

    def _between(
        self, node: DocumentNode, position: TextPosition, problems: Problems, *, is_path: bool = False
    ) -> Draft:
        """The draft between two points: its draft has tasks that stand for what enters and what leaves."""
        within = DraftReader(problems, task_types=self.task_types, type_remedy=self.type_remedy)
        within.parsed_characters, within.tasks_read = self.parsed_characters, self.tasks_read
        within.draft.tasks = {end: DraftTask(end, kind, {}, position) for end, kind in _ENDS.items()}
        within.draft.is_path = is_path
        within._tasks_and_streams(node)
        self.parsed_characters, self.tasks_read = within.parsed_characters, within.tasks_read
        return within.draft

    def _count_parsed(self, task_type: TaskType, config: DocumentNode, task_id: str) -> None:
        for parameter in task_type.parameters:
            if parameter.expression or parameter.query:
                self._count(config.value.get(parameter.name), task_id)

    def _count(self, node: DocumentNode | None, task_id: str) -> None:
        if node is not None and (text := _text(node)):
            self._count_characters(len(text), node.position, task_id)

    def _count_characters(self, number: int, position: TextPosition, task_id: str) -> None:
        self.parsed_characters += number
        if self.parsed_characters > DOCUMENT_QUERIES.most:
            raise self.problems.stop(
                "too_long", position,
                f"The queries and guards up to task {task_id} have more than {DOCUMENT_QUERIES.most:,} characters.",
                "Split the dataflow, or let tasks share what several of them compute.")

    def _task_id(self, node: DocumentNode | None) -> str | None:
        """A task's id; None if it is missing, invalid, or used twice."""
        if (task_id := _text(node)) is None:
            return None
        if not _is_id(node):
            self.draft.invalid_ids.add(task_id)
            return None
        if task_id in self.draft.tasks and self.draft.tasks[task_id].is_end:
            self.problems.add(
                "invalid_id", node.position, f"No task of a path is called {task_id}: so is what "
                f"{'enters' if task_id == INPUT else 'leaves'}.", "Give it another id.", task_id=task_id)
            return None
        if task_id in self.draft.tasks or task_id in self.draft.loops:
            first = (self.draft.tasks.get(task_id) or self.draft.loops[task_id]).position
            self.problems.add(
                "duplicate_id", node.position, f"Two tasks have the id {task_id}; the first is on line {first.line}.",
                "Give each task an id of its own.", task_id=task_id,
            )
            return None
        return task_id

    def _task_type(self, node: DocumentNode | None, task_id: str | None) -> TaskType | None:
        if (name := _text(node)) is None or (name in self.task_types and name != PATH and not is_dynamic(name)):
            return self.task_types.get(name)
        near = self.problems.nearest(name, self.task_types)
        remedy = self.type_remedy(name) if self.type_remedy else "The task library lists the types there are."
        self.problems.add(
            "unknown_task_type", node.position, f"There is no task type {shown(name) or 'without a name'}.",
            f"Did you mean {near}?" if near else remedy, task_id=task_id)
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
                "Remove the rate: it follows from the rates of the sources.", task_id=task_id)
        elif rate is not None and self.draft.rates_per_s.setdefault(task_id, rate) != rate:
            self.problems.add(
                "two_rates", key or node.position, f"Source {task_id} has two different rates.", "Keep one of the two.",
                task_id=task_id)


def _conditions(node: DocumentNode) -> list[DocumentNode]:
    """The texts of an alternate that guards are read from."""
    stated = [node.value[key] for key in ("guard", "value") if key in node.value]
    return [condition for condition in stated if isinstance(condition.value, str)]


def _text(node: DocumentNode | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None


def _is_id(node: DocumentNode | None) -> bool:
    return _TASK_ID.fullmatch(_text(node) or "") is not None


def _number(node: DocumentNode | None) -> float | None:
    value = None if node is None else node.value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _mappings(node: DocumentNode | None) -> Iterable[DocumentNode]:
    """The elements of a list that are mappings."""
    return [element for element in node.value if element.is_mapping] if node is not None and node.is_list else []
