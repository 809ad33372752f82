"""From a fragment to a query: read its input, build each task, put a valve behind each, end in a sink.

Structured Streaming sees one plan for the whole chain. Every stream has one partition, so that events keep their order
and one writer numbers a channel's blocks. Only the first task of a chain may work on several threads, each with a slice
of the batch; behind it, what they made is one partition again, in the order of the input.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scheduler.contracts.offsets import Offset
from scheduler.model.alternates import alternates_in
from scheduler.model.dataflow import Task
from scheduler.model.effects import effects_in_words, needs_approval
from scheduler.model.errors import WeirError
from scheduler.model.settings_of_fragments import LEAST_THREADS
from scheduler.model.task_types import TaskType
from workers.engine.channels import keys, open_streams
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.open_streams import QueryMode
from workers.engine.channels.spark_channels import count_late, gather, read_channels, read_ticks, valve
from workers.engine.channels.tick_schedule import TickSchedule
from workers.engine.files.staging import Staging
from workers.engine.sealed_secrets import opened
from workers.library.registry import companion, resolve
from workers.library.state import going_on

from .dynamic_tasks import built, switched
from .failure_messages import FragmentFailed, TaskCode, explain_error
from .hosted_folds import HostedFolds, can_be_hosted

NO_FENCE = -1  # a token that no channel gives


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The position at which a query begins that goes on with other work than that of its checkpoint.

    ``source_offset`` is the offset of its source, ``offsets`` are the entries up to which it leaves out what channels
    hold, ``batch_bases`` what block numbers begin with in channels that others wrote before; ``states`` is the file
    with the first state of its folds (``workers.library.state``). It ``repeats`` batches of another, from just these
    offsets on; of the channels that those read to their end some are ``gone``. A query that stands by has the token of
    its ``gate``, and is told all but ``states`` when that opens (``Channels.open_gate``).
    """

    source_offset: Mapping[str, int] | None = None
    offsets: Mapping[str, Offset] = field(default_factory=dict)
    batch_bases: Mapping[str, int] = field(default_factory=dict)
    states: Path | None = None
    repeats: bool = False
    gone: tuple[str, ...] = ()
    gate: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of tasks that is to be compiled: a fragment's id, its tasks upstream first, the streams that the first
    one reads (each by the channels that carry it), the channels that they write, and on how many threads the first one
    works.

    All that is in the estate is ``approved``. Of a chain that is not, no task with outside effects is built, and no
    secret is opened. In ``real_time`` mode its batches stay open, where it can be worked on so. Where it is ``at_work``
    in the estate, and not tried, it hears of waves (docs/dynamic.md). Folds are at the slot's fold host, where they can
    be, of a chain with a ``checkpoint``: the states are kept beside that."""

    fragment: str
    tasks: Sequence[Task]
    inputs: Sequence[Sequence[str]]
    written: Sequence[str]
    beginning: StartPosition = field(default_factory=StartPosition)
    threads: int = 1
    approved: bool = True
    real_time: bool = False
    at_work: bool = False
    checkpoint: Path | None = None


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A streaming DataFrame to start; the schema of each task's stream (Spark JSON), and how many folds each task has;
    how it ends; and whether its batches stay open, or why they cannot."""

    frame: DataFrame
    schemas: tuple[str, ...]
    folds: tuple[tuple[str, int], ...]
    file_sink: Staging | None
    batch_mode: QueryMode = field(default_factory=QueryMode)


def compile_chain(
    spark: SparkSession,
    chain: Chain,
    *,
    config: ChannelConfig,
    task_types: Mapping[str, TaskType],
    take_fence: Callable[[str], int],
    folder: Path,
) -> CompiledQuery:
    """Compile a fragment.

    Parameters
    ----------
    chain : Chain
        The whole chain: tasks behind a closed tail too, since a checkpoint holds their state.
    take_fence : callable
        Gives a channel's next fencing token: whoever wrote there before can write no more.
    folder : Path
        The installation's data folder: schedules of replays and files of sinks go below it.

    Raises
    ------
    FragmentFailed
        A task is of an unknown type or its build function failed; the message names the task.
    """
    around = {"config": config, "task_types": task_types, "take_fence": take_fence, "folder": folder}
    compiled = _compiled(spark, chain, **around)
    refusal = _refusal(spark, chain, compiled)
    if chain.real_time and not refusal:
        return replace(compiled, batch_mode=QueryMode(is_open=True))
    if chain.real_time:  # it is read as what it is
        compiled = _compiled(spark, replace(chain, real_time=False), **around)
    return replace(compiled, batch_mode=QueryMode(refusal=refusal))


def _refusal(spark: SparkSession, chain: Chain, compiled: CompiledQuery) -> str:
    """Why a chain cannot be worked on in real-time mode; empty where it can."""
    master = re.fullmatch(r"local\[(\d+)\]", spark.sparkContext.master)
    if master is None:
        return "its slot works with executors elsewhere"
    if int(master[1]) < LEAST_THREADS:
        return f"its slot has {master[1]} threads, not {LEAST_THREADS}: each open batch holds one (WEIR_SLOT_THREADS)"
    if any(alternates_in(task.type, task.config) for task in chain.tasks):
        return "a task of it has alternates, which change between batches"
    if chain.threads > 1:
        return f"it works on {chain.threads} threads"
    if compiled.file_sink is not None:
        return "it writes files"
    return open_streams.refusal(compiled.frame)


def _compiled(
    spark: SparkSession, chain: Chain, *, config: ChannelConfig, task_types: Mapping[str, TaskType],
    take_fence: Callable[[str], int], folder: Path,
) -> CompiledQuery:
    """The chain in the mode that it asks for, whether it can be worked on so or not."""
    schemas: list[str] = []
    folds: list[tuple[str, int]] = []
    frame: DataFrame | None = None
    hosted = _hosted(spark, chain, task_types)
    for position, task in enumerate(chain.tasks):
        try:
            task_type = task_types[task.type]
            if not chain.approved and needs_approval(task_type, task.config):
                raise FragmentFailed(
                    f"task {task.id}: {task.type} reaches {effects_in_words(task_type)}, and was not approved",
                    tasks=[task.id])
            if frame is None:
                frame = _input(spark, chain, task_type, config=config, folder=folder)
            with going_on(
                task.id, inherited=chain.beginning.states, stores=_stores(spark, folder), fragment=chain.fragment,
                count_late=partial(count_late, config=config, fragment=chain.fragment, position=position),
                hosted=hosted,
            ) as counted:
                config_here = opened(task.config, redis_url=config.redis_url, data_dir=folder)
                if alternates_in(task.type, task.config):
                    frame = switched(
                        frame, task, task_types, config, fragment=chain.fragment,
                        position=position, is_at_work=chain.at_work)
                else:
                    frame = built(task_type, config_here, frame)
        except Exception as error:
            if task.type not in task_types:
                raise FragmentFailed(
                    f"task {task.id}: its type {task.type} is not installed on this node", tasks=[task.id]) from error
            reaches_out = needs_approval(task_types[task.type], task.config)
            # What a query may say has become less since it was stored; it will not say less by itself.
            is_final = task_types[task.type].has_expressions and isinstance(error, WeirError)
            raise explain_error(error, task=task.id, reaches_out=reaches_out, is_final=is_final) from error
        if position == 0:
            frame = gather(frame, threads=chain.threads)
        schemas.append(frame.schema.json())
        folds.append((task.id, counted.count))
        channel = chain.written[position]
        gate = chain.beginning.gate
        frame = valve(
            frame, config, fragment=chain.fragment, position=position, channel=channel,
            fence=NO_FENCE if gate else take_fence(channel),  # whoever writes there now goes on until the gate opens
            batch_base=chain.beginning.batch_bases.get(channel, 0), gate=gate, task=task.id,
        )
    file_sink = _file_sink(chain, task_types, folder)
    return CompiledQuery(frame=frame, schemas=tuple(schemas), folds=tuple(folds), file_sink=file_sink)


def _hosted(spark: SparkSession, chain: Chain, task_types: Mapping[str, TaskType]) -> Callable | None:
    """What puts the folds of a chain to the slot's host; None where Spark keeps their states."""
    if chain.checkpoint is None or not can_be_hosted(spark, chain.tasks, task_types, chain.checkpoint):
        return None
    return HostedFolds(chain.checkpoint, chain.real_time).fold


def _stores(spark: SparkSession, folder: Path) -> Path | None:
    """The folder of fold stores; none on a cluster, whose machines may share a folder but not a store in it."""
    return folder / "folds" if spark.sparkContext.master.startswith("local") else None


def output_positions(tasks: Sequence[Task], task_types: Mapping[str, TaskType]) -> frozenset[int]:
    """Positions whose streams are always published: named outputs, kept for browsing, and what connectors write."""
    return _ending(tasks, task_types, "output", "connector")


def written_positions(tasks: Sequence[Task], task_types: Mapping[str, TaskType]) -> frozenset[int]:
    """Positions of sinks whose streams the node's connector host reads, to write them to another system."""
    return _ending(tasks, task_types, "connector")


def _ending(tasks: Sequence[Task], task_types: Mapping[str, TaskType], *terminals: str) -> frozenset[int]:
    return frozenset(
        position for position, task in enumerate(tasks)
        if task.type in task_types and task_types[task.type].terminal in terminals)


def task_code_of(tasks: Sequence[Task], task_types: Mapping[str, TaskType]) -> list[TaskCode]:
    """The files with each task's code, so that a traceback can be told to be of a task."""
    typed_tasks = [
        (task, task_types[name]) for task in tasks
        for name in _types_of(task) if name in task_types]
    builders = [(task, resolve(task_type)) for task, task_type in typed_tasks]
    return [
        TaskCode(
            task=task.id, type=task.type, file=inspect.getfile(build),
            reaches_out=needs_approval(task_types[task.type], task.config))
        for task, build in builders]


def _types_of(task: Task) -> list[str]:
    """The types whose code works at a task."""
    alternates = alternates_in(task.type, task.config)
    return [step.type for way in alternates for step in way.tasks] or [task.type]


def _input(
    spark: SparkSession,
    chain: Chain,
    task_type: TaskType,
    *,
    config: ChannelConfig,
    folder: Path,
) -> DataFrame:
    begin = chain.beginning
    if task_type.kind != "source" or task_type.connector is not None:
        is_part = all(map(keys.is_part, chain.inputs[0]))
        return read_channels(
            spark, config, inputs=chain.inputs, reader=chain.fragment, writes=chain.written, begin=begin.offsets,
            threads=chain.threads, gate=begin.gate, real_time=chain.real_time, idle_ms=_idle_ms(chain.tasks),
            source=chain.tasks[0].id if chain.at_work and task_type.kind == "source" else "",
            marks=is_part and task_type.by_marks is not None,
            numbered=task_type.several_streams and len(chain.inputs) > 1,
            key=task_type.key_columns(chain.tasks[0].config) if is_part and len(chain.inputs) > 1 and task_type.by_key
            else (), repeats=begin.repeats, gone=begin.gone,
        )
    if chain.threads > 1:
        raise FragmentFailed(f"task {chain.tasks[0].id}: a source works on one thread, not on {chain.threads}")
    pace = _pace(chain.tasks[0], task_type, folder)
    return read_ticks(
        spark, config, name=chain.fragment, writes=chain.written, begin=begin.source_offset, gate=begin.gate,
        real_time=chain.real_time, source=chain.tasks[0].id if chain.at_work else "", **pace)


def _idle_ms(tasks: Sequence[Task]) -> int:
    """After which silence a chain has something to do: the shortest that one of its tasks asks for; 0 for none."""
    return round(1000 * min((float(task.config["idle"]) for task in tasks if task.config.get("idle")), default=0.0))


def due_ms(source: Task, task_type: TaskType, number: int, *, folder: Path) -> int:
    """The time at which a source's number is due, in ms after number 0; of one behind the last, that of the last."""
    pace = _pace(source, task_type, folder)
    schedule = TickSchedule(
        rate_per_s=pace.get("rate_per_s"), file=pace.get("schedule_file"), repeat_ms=pace.get("repeat_ms", 0))
    return schedule.due_of(number if schedule.size is None else min(number, max(0, schedule.size - 1)))


def _pace(source: Task, task_type: TaskType, folder: Path) -> dict[str, Any]:
    """The rate or the schedule of a source."""
    make_schedule = companion(task_type, "_schedule")
    if make_schedule is None:
        return {"rate_per_s": source.config["rate_per_s"]}
    schedule = make_schedule(source.config, folder)
    return {
        "schedule_file": schedule.file, "repeat_ms": schedule.repeat_ms, "repeat_time_ms": schedule.repeat_time_ms,
    }


def _file_sink(chain: Chain, task_types: Mapping[str, TaskType], folder: Path) -> Staging | None:
    """The last task's files. Each fragment writes a folder of its own: batches are numbered by fragment."""
    last = chain.tasks[-1]
    terminal = task_types[last.type].terminal
    if terminal not in ("parquet", "json"):
        return None
    return Staging(
        format=terminal, folder=folder / "outputs" / f"{last.config['folder']}-{last.id[:12]}" / chain.fragment)
