"""From a fragment to a query: read its input, build each task, put a valve behind each, end in a sink.

Structured Streaming sees one plan for the whole chain. Every stream has one partition, so that events keep their order
and one writer numbers a channel's blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from scheduler.model.dataflow import Task
from scheduler.model.estate import channel_id
from scheduler.model.task_types import TaskType
from workers.channels.config import ChannelConfig
from workers.channels.spark import read_channels, read_ticks, valve
from workers.library.registry import companion, resolve

from .failures import FragmentFailed, TaskPlace, explain_error


@dataclass(frozen=True, slots=True)
class Chain:
    """What is to be compiled: a fragment's id, its tasks upstream first, and the channels that the first one reads."""

    fragment: str
    tasks: Sequence[Task]
    inputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class FileSink:
    """A terminal that Spark writes itself: a format of its file sink, and a folder."""

    format: str
    path: Path


@dataclass(frozen=True, slots=True)
class Compiled:
    """A streaming DataFrame to start, the schema of each task's stream (Spark JSON), and how it ends."""

    frame: DataFrame
    schemas: tuple[str, ...]
    file_sink: FileSink | None


def compile_chain(
    spark: SparkSession,
    chain: Chain,
    *,
    config: ChannelConfig,
    task_types: Mapping[str, TaskType],
    take_fence: Callable[[str], int],
    folder: Path,
) -> Compiled:
    """Compile a fragment.

    Parameters
    ----------
    spark : SparkSession
        A session with the channels' configuration.
    chain : Chain
        The whole chain: tasks behind a closed tail too, since a checkpoint holds their state.
    config : ChannelConfig
        How to reach channels.
    task_types : Mapping[str, TaskType]
        The catalogue.
    take_fence : callable
        Gives a channel's next fencing token: whoever wrote there before can write no more.
    folder : Path
        The installation's data folder: schedules of replays and files of sinks go below it.

    Raises
    ------
    FragmentFailed
        A task is of an unknown type or its build function failed; the message names the task.
    """
    gates = [channel_id(chain.fragment, position) for position in range(len(chain.tasks))]
    schemas: list[str] = []
    frame: DataFrame | None = None
    for position, task in enumerate(chain.tasks):
        try:
            task_type = task_types[task.type]
            if frame is None:
                frame = _input(spark, chain, task_type, config=config, gates=gates, folder=folder)
            frame = resolve(task_type)(frame, task.config)
        except KeyError as error:
            if task.type not in task_types:
                raise FragmentFailed(f"task {task.id}: its type {task.type} is not installed on this node") from error
            raise explain_error(error, task=task.id) from error
        except Exception as error:
            raise explain_error(error, task=task.id) from error
        schemas.append(frame.schema.json())
        channel = gates[position]
        frame = valve(
            frame, config, fragment=chain.fragment, position=position, channel=channel, fence=take_fence(channel)
        )
    return Compiled(frame=frame, schemas=tuple(schemas), file_sink=_file_sink(chain, task_types, folder))


def output_positions(tasks: Sequence[Task], task_types: Mapping[str, TaskType]) -> frozenset[int]:
    """Positions of named outputs: their streams are always published, and kept for browsing."""
    return frozenset(
        position
        for position, task in enumerate(tasks)
        if task.type in task_types and task_types[task.type].terminal == "output"
    )


def places_of(tasks: Sequence[Task], task_types: Mapping[str, TaskType]) -> list[TaskPlace]:
    """Where each task's code is, so that a traceback can be told to be of a task."""
    known = [(task, resolve(task_types[task.type])) for task in tasks if task.type in task_types]
    return [TaskPlace(task=task.id, type=task.type, file=inspect.getfile(build)) for task, build in known]


def _input(
    spark: SparkSession,
    chain: Chain,
    task_type: TaskType,
    *,
    config: ChannelConfig,
    gates: Sequence[str],
    folder: Path,
) -> DataFrame:
    if task_type.kind != "source":
        return read_channels(spark, config, inputs=chain.inputs, reader=chain.fragment, gates=gates)
    task = chain.tasks[0]
    make_schedule = companion(task_type, "_schedule")
    if make_schedule is None:
        return read_ticks(spark, config, name=chain.fragment, rate_per_s=task.config["rate_per_s"], gates=gates)
    schedule = make_schedule(task.config, folder)
    return read_ticks(
        spark, config, name=chain.fragment, schedule_file=schedule.file, gates=gates, repeat_ms=schedule.repeat_ms,
        repeat_time_ms=schedule.repeat_time_ms,
    )


def _file_sink(chain: Chain, task_types: Mapping[str, TaskType], folder: Path) -> FileSink | None:
    """The last task's files. Each fragment writes a folder of its own: Spark's file sink remembers there which batches
    it has written, and would take another fragment's first batches for repetitions of them."""
    last = chain.tasks[-1]
    terminal = task_types[last.type].terminal
    if terminal not in ("parquet", "json"):
        return None
    return FileSink(
        format=terminal, path=folder / "outputs" / f"{last.config['folder']}-{last.id[:12]}" / chain.fragment
    )
