"""Dynamic tasks as parts of a query: all alternates of a task are compiled, and those of a batch are planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, functions

from scheduler.model.alternates import (
    BEGIN,
    BY,
    FRESH,
    SHARED,
    TaskAlternate,
    alternates_in,
    first_on,
    in_waves,
    one_state_by_event,
)
from scheduler.model.dataflow import Task
from scheduler.model.paths import TaskPath
from scheduler.model.task_types import DYNAMIC_FOLD, TaskType
from scheduler.model.warm_up import warm_s
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.spark_channels import (
    WARMING,
    alternate_of_event,
    each_by_key,
    first_events_noted,
    headed,
    one_of,
    shared,
    the_one_on,
)
from workers.library.dynamic import joined
from workers.library.registry import resolve
from workers.library.state import key_text
from workers.library.switched_folds import Way, along, one_task, shared_state, switched_states


def switched(
    events: DataFrame, task: Task, task_types: Mapping[str, TaskType], config: ChannelConfig, *, fragment: str,
    position: int, is_at_work: bool,
) -> DataFrame:
    """The output of the alternates of a dynamic task, of which one is on in each batch, or for each key."""
    switch = {"fragment": fragment, "position": position}
    alternates, by = alternates_in(task.type, task.config), task.config.get(BY) or ()
    wave = task.id if is_at_work and in_waves(task.type, task.config) else ""
    builds = _builds(alternates, task_types)
    key = partial(key_text, by=by)
    if task.type != DYNAMIC_FOLD and not by:
        return one_of(events, builds, config, task=task.id, in_waves=bool(wave), **switch)
    events = first_events_noted(
        events, config, task=task.id, in_waves_first=next(iter(builds)) if wave else "", **switch)
    if task.type != DYNAMIC_FOLD:
        return each_by_key(events, key, builds, config, **switch)
    if task.config[BEGIN] == SHARED and one_state_by_event(alternates, task_types):
        return shared_state(
            events, builds, lambda frame: alternate_of_event(
                frame, key(frame), [*builds], config, in_waves_of=wave, **switch))
    on = partial(the_one_on, config=config, in_waves_of=wave, **switch)
    builders = {alternate.name: _way(alternate, task_types) for alternate in alternates}
    return switched_states(
        events, {name: builders[name] for name in builds}, on, begins=task.config[BEGIN] == FRESH, headed=headed,
        both_of=partial(on, beside=WARMING) if warm_s(task.type, task.config) else None,
        working=lambda frame: alternate_of_event(
            frame, functions.lit(""), [*builds], config, in_waves_of=wave, **switch))


def built(task_type: TaskType, config: Mapping[str, Any], events: DataFrame) -> DataFrame:
    """The output of a task of that type and config for a stream."""
    return resolve(task_type)(events, config)


def _builds(
    alternates: Sequence[TaskAlternate], task_types: Mapping[str, TaskType]
) -> dict[str, Callable[[DataFrame], DataFrame]]:
    """How each alternate is built, the one first that is on at first."""
    first = first_on(alternates)
    return {
        alternate.name: partial(built, task_types[alternate.type], alternate.config) if alternate.path is None
        else partial(_along, alternate.path, task_types)
        for alternate in sorted(alternates, key=lambda alternate: alternate is not first)}


def _along(path: TaskPath, task_types: Mapping[str, TaskType], events: DataFrame) -> DataFrame:
    """The output of a path. If its streams fork, all of it is one partition, which sharing the forked stream requires.
    """
    made = path.follow(
        events, work=lambda task, read: built(task_types[task.type], task.config, read), join=_one_stream, share=shared)
    return made.coalesce(1) if path.shared() else made


def _one_stream(left: DataFrame, right: DataFrame) -> DataFrame:
    return joined(left, right).coalesce(1)


def _way(alternate: TaskAlternate, task_types: Mapping[str, TaskType]) -> Way:
    """How an alternate works, fold by fold."""
    if alternate.path is None:
        return one_task(partial(built, task_types[alternate.type], alternate.config))
    return along(
        alternate.path, lambda task: partial(built, task_types[task.type], task.config), join=_one_stream, share=shared)
