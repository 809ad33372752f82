"""Dynamic tasks on top of a wider static one: the alternate that is equal passes its events on, others refine them.

So a static task and an alternate that does the same work once for both, where all alternates follow from what it makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.model.alternates import ALTERNATES, BY, why_no_alternate
from scheduler.model.paths import INPUT, STREAMS, TASKS, path_in
from scheduler.model.refinement import Refined
from scheduler.model.task_types import DYNAMIC, TaskTypes

PASSES = "union"  # the type of tasks that pass on what they read
_RATE = re.compile(r"\brate\b", re.IGNORECASE)  # the figure that counts what reaches a task

Refining = Callable[[str, Mapping[str, Any]], Refined | None]  # of a task by its type and config; None where it cannot


def refined_alternates(config: Mapping[str, Any], refining: Refining, *, task_types: TaskTypes) -> Refined | None:
    """The dynamic task that makes of a wider task's stream what this one makes of what both read.

    Names, values and guards stay. None where an alternate does not follow from that stream; where its keys have
    alternates of their own; and where a guard or a value goes by `rate`, which would count other events.

    Parameters
    ----------
    config : mapping of str to Any
        Of a task of the type `DYNAMIC`, canonical.
    refining : callable
        The function that refines the wider stream to that of a task; to that of an equal one a task of the type
        `PASSES`.
    """
    alternates = config[ALTERNATES]
    if PASSES not in task_types or config.get(BY) or any(
            _RATE.search(str(way.get(key) or "")) for way in alternates for key in ("guard", "value")):
        return None

    def refined(type_name: str, stated: Mapping[str, Any]) -> Refined | None:
        answer = refining(type_name, stated)
        is_fit = answer is not None and answer.type in task_types and not why_no_alternate(task_types[answer.type])
        return answer if is_fit else None

    on_top = [_path(way, refined) if TASKS in way else _task(way, refined) for way in alternates]
    return None if None in on_top else Refined(DYNAMIC, {**config, ALTERNATES: on_top})


def _task(way: Mapping[str, Any], refining: Refining) -> dict[str, Any] | None:
    refined = refining(way["type"], way["config"])
    return None if refined is None else {**way, "type": refined.type, "config": refined.config}


def _path(way: Mapping[str, Any], refining: Refining) -> dict[str, Any] | None:
    """A path whose first task is refined, or left out where it is the wider one. Its streams do not part: branches of a
    path come in an order that follows from all that is upstream of them."""
    path = path_in(way)
    first, *behind = way[TASKS]
    heads = [stream.target for stream in path.streams if stream.source == INPUT]
    if path.shared() or heads != [first["id"]]:
        return None
    refined = refining(first["type"], first["config"])
    if refined is None:
        return None
    if refined.type != PASSES:
        return {**way, TASKS: [{**first, "type": refined.type, "config": refined.config}, *behind]}
    return {
        **way, TASKS: behind,
        STREAMS: [
            {**stream, "from": INPUT if stream["from"] == first["id"] else stream["from"]}
            for stream in way[STREAMS] if stream["from"] != INPUT]}
