"""Paths: alternates of several tasks, which lie between what a dynamic task reads and what it gives (thesis [3], 3.2).

A path's tasks have ids of their own. Its streams begin with one of them or with `INPUT`, all that enters, interleaved,
and end with one of them or with `OUTPUT`, which is what leaves. ``docs/dynamic.md`` says what they promise.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import reduce
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import Any, TypeVar

from .dataflow import Stream, Task

INPUT, OUTPUT = ENDS = "input", "output"
TASKS, STREAMS = "tasks", "streams"  # the keys in a document
INTO_PORT, FROM_PORT = AT_PORT = "into_port", "from_port"  # the task types where streams enter and leave by a name
PORT = "port"  # their parameter
Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True)
class TaskPath:
    """The tasks and streams of a path."""

    tasks: tuple[Task, ...]
    streams: tuple[Stream, ...]

    def parents(self) -> dict[str, tuple[str, ...]]:
        """The parents of each task and of `OUTPUT`, upstream first."""
        reads: dict[str, list[str]] = {task.id: [] for task in self.tasks} | {OUTPUT: []}
        for stream in self.streams:
            reads[stream.target].append(stream.source)
        return {name: tuple(reads[name]) for name in TopologicalSorter(reads).static_order() if name != INPUT}

    def stages(self) -> list[list[str]]:
        """Its tasks, those together that as many others may be before; upstream first."""
        depth = {INPUT: -1}
        stages: dict[int, list[str]] = {}
        for name, above in self.parents().items():
            depth[name] = 1 + max((depth[source] for source in above), default=-1)
            stages.setdefault(depth[name], []).append(name)
        return [stage for number in sorted(stages) if (stage := [name for name in stages[number] if name != OUTPUT])]

    def shared(self) -> frozenset[str]:
        """The parts that are read more than once: `INPUT`, or tasks."""
        sources = [stream.source for stream in self.streams]
        return frozenset(source for source in sources if sources.count(source) > 1)

    def shares(self, selectivity: Callable[[Task], float]) -> dict[str, float]:
        """The number of events that each task, and `OUTPUT`, gets for each event that enters; upstream first."""
        made, got = {INPUT: 1.0}, {}
        tasks = {task.id: task for task in self.tasks}
        for name, above in self.parents().items():
            got[name] = sum(made[source] for source in above)
            made[name] = got[name] * selectivity(tasks[name]) if name in tasks else got[name]
        return got

    def walk(
        self, entering: Frame, *, join: Callable[[Frame, Frame], Frame],
        share: Callable[[Frame], Frame] = lambda frame: frame,
    ) -> Generator[tuple[Task, Frame], Frame, Frame]:
        """Yield each task with what it reads, upstream first; be sent what it makes; return what leaves.

        Parameters
        ----------
        join : callable
            One of two streams that enter a task.
        share : callable, optional
            Of a stream that several read, one that each of them may read.
        """
        tasks, shared = {task.id: task for task in self.tasks}, self.shared()
        made = {INPUT: share(entering) if INPUT in shared else entering}
        for name, above in self.parents().items():
            read = reduce(join, (made[source] for source in above))
            input_value = (yield tasks[name], read) if name in tasks else read
            made[name] = share(input_value) if name in shared else input_value
        return made[OUTPUT]

    def follow(
        self, entering: Frame, *, work: Callable[[Task, Frame], Frame], join: Callable[[Frame, Frame], Frame],
        share: Callable[[Frame], Frame] = lambda frame: frame,
    ) -> Frame:
        """The frame that leaves, where each task does its work on its inputs; ``join`` and ``share`` as `walk` has
        them."""
        walked = self.walk(entering, join=join, share=share)
        try:
            task, read = next(walked)
            while True:
                task, read = walked.send(work(task, read))
        except StopIteration as end:
            return end.value

    def numbered(self, labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Ids by place, which are the same in every path that is this one but for ids and order; and twins.

        Parameters
        ----------
        labels : mapping of str to str
            The description of each task, by id: its type and its config.

        Returns
        -------
        dict, dict
            By id the number of the task, upstream first; by id of a task that does what an earlier one does, that one.
        """
        depth, marks = {INPUT: 0}, {INPUT: ""}
        for name, above in self.parents().items():
            depth[name] = 1 + max((depth[source] for source in above), default=0)
            text = "\n".join([labels.get(name, ""), *sorted(marks[source] for source in above)])
            marks[name] = sha256(text.encode()).hexdigest()
        order = sorted((task.id for task in self.tasks), key=lambda name: (depth[name], marks[name]))
        first: dict[str, str] = {}
        twins = {task.id: first[marks[task.id]] for task in self.tasks
                 if first.setdefault(marks[task.id], task.id) != task.id}
        return {name: str(number) for number, name in enumerate(order, 1)}, twins


def path_in(stated: Mapping[str, Any]) -> TaskPath:
    """The path that an alternate's ``tasks`` and ``streams`` say, as they stand in a valid document or a config."""
    return TaskPath(
        tuple(Task(task["id"], task["type"], task.get("config") or {}) for task in stated[TASKS]),
        tuple(Stream(stream["from"], stream["to"]) for stream in stated[STREAMS]))


def path_in_form(stated: Mapping[str, Any], *, config_of: Callable[[Task], Any], text: Callable[[Any], str]) -> dict[
        str, Any]:
    """One spelling for paths that are equal up to ids and order: that of a single task is its type and config.

    Parameters
    ----------
    config_of : callable
        A task's canonical config.
    """
    path = path_in(stated)
    configs = {task.id: config_of(task) for task in path.tasks}
    if len(path.tasks) == 1 and len(path.streams) == 2:
        [task] = path.tasks
        return {"type": task.type, "config": configs[task.id]}
    ids, _ = path.numbered({task.id: text([task.type, configs[task.id]]) for task in path.tasks})
    by_place = sorted(path.tasks, key=lambda task: int(ids[task.id]))
    return {
        TASKS: [{"id": ids[task.id], "type": task.type, "config": configs[task.id]} for task in by_place],
        STREAMS: [
            {"from": source, "to": target} for source, target in sorted(
                (ids.get(stream.source, stream.source), ids.get(stream.target, stream.target))
                for stream in path.streams)]}
