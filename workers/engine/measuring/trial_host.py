"""A slot's side of trials: it makes the events to feed, runs the query, and reports its batches and its heap.

Its agent sends commands, one after the other; it answers each.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scheduler.contracts.looks import DONE, FAILED, LookState
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType, TaskTypes
from workers.engine import look_store
from workers.engine.channels import block_codec, keys
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.spark import queries
from workers.engine.spark.compile import Chain, CompiledQuery, StartPosition, compile_chain, due_ms, task_code_of
from workers.engine.spark.failure_messages import FragmentFailed, explain, explain_error
from workers.engine.spark.listener import QueryListener
from workers.engine.trial_store import TrialFailed
from workers.library.code import code_digest

from . import feed, load, trial_figures
from .showing import first_events
from .trial_tasks import MEASURED, feeding, warming

LOG_LEVEL = "ERROR"  # of Spark, as a slot's session has it
FEED_S = 60.0  # for making the events
DRAIN_S = 0.6  # for the batch under way, unless it is a long one
STILL_S = 3.0  # nothing more came out for so long: that were all
READ_BLOCKS = 200


@dataclass(frozen=True)
class TrialContext:
    """The parts of a slot that a trial needs."""

    spark: SparkSession
    channels: Channels
    broker: Any
    config: ChannelConfig
    listener: QueryListener
    task_types: TaskTypes
    data_dir: Path
    trigger_ms: int


class Host:
    """Performs commands; at most one query at a time is a trial's."""

    def __init__(self, context: TrialContext) -> None:
        self._context = context
        self.is_used = False  # a command has come
        self._query: Any = None
        self._fragment = ""
        self._task: Task | None = None
        self._warm_queries: dict[str, Any] = {}
        # Now, for what was imported at the start is what runs, whatever becomes of the files.
        self._code = codes_of(context.task_types)
        self._commands: Mapping[str, Callable[..., dict[str, Any]]] = {
            "weigh": self.weigh, "feed": self.feed, "hurry": self.hurry, "rest": self.rest, "begin": self.begin,
            "look": self.look, "end": self.end, "show": self.show,
        }

    def perform(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Perform a command (``do``) and answer it; an error is an answer, too."""
        self.is_used = True
        arguments = {name: value for name, value in command.items() if name not in ("do", "ask")}
        try:
            return {"ok": True, **self._commands[command["do"]](**arguments)}
        except TrialFailed as error:
            return {"ok": False, "code": error.code, "message": error.message, "remedy": error.remedy}
        except Exception as error:
            return {"ok": False, **_failure(explain_error(error))}

    def weigh(self) -> dict[str, Any]:
        """Live memory on the heap in MiB, and the versions of Java and PySpark."""
        jvm = self._context.spark._jvm
        return {"heap_mb": load.heap_mb(jvm), "java": jvm.java.lang.System.getProperty("java.version"),
                "pyspark": self._context.spark.version}

    def show(self, *, look: str, task_type: str, config: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Make the first events of a source that generates them from their numbers, and answer with them.

        Parameters
        ----------
        task_type : str
            The source's type; one with outside effects shows nothing.
        """
        context = self._context
        try:
            batch = first_events(
                context.spark, context.task_types[task_type], config, count=count, now_ms=time.time_ns() // 1_000_000)
        except Exception as error:
            facts = _failure(explain_error(error))
            look_store.tell(context.broker, look, LookState(
                FAILED, facts["code"], facts["message"], facts["remedy"]))
            return {}
        look_store.tell(context.broker, look, LookState(DONE), batch)
        return {}

    def feed(
        self, *, fragment: str, chain: list[Mapping[str, Any]], path: str, approved: bool = False
    ) -> dict[str, Any]:
        """Make the events that a chain of tasks gives, all that are due at once, and keep them in a file.

        Parameters
        ----------
        approved : bool, optional
            True where this config is one of an approved version, so that effects and secrets are allowed.
        """
        context = self._context
        tasks = [Task(feeding(number), task["type"], task["config"]) for number, task in enumerate(chain)]
        source_type = context.task_types[tasks[0].type]
        back_ms = due_ms(tasks[0], source_type, feed.EVENTS, folder=context.data_dir)
        source_offset = {"t0": time.time_ns() // 1_000_000 - back_ms, "next": 0}
        config = ChannelConfig(context.config.redis_url, context.config.data_dir, catch_up_ms=2**53)
        written = [f"{fragment}.{position}" for position in range(len(tasks))]
        beginning = StartPosition(source_offset=source_offset)
        chain_ = Chain(fragment, tasks, (), written, beginning=beginning, approved=approved)
        compiled = self._compile(chain_, config)
        context.channels.open_channel(written[-1], schema_json=compiled.schemas[-1], retain=feed.EVENTS)
        context.channels.open_outlet(fragment, len(tasks) - 1, from_batch=0)
        self._start(fragment, compiled, tasks[0])
        try:
            self._await_events(written[-1])
            blocks = context.broker.xrange(keys.channel(written[-1]), count=READ_BLOCKS)
        finally:
            self.end()
        batches = [batch for _, fields in blocks for batch in block_codec.decode_block(fields[b"b"])]
        if not sum(batch.num_rows for batch in batches):
            raise TrialFailed(
                "no_feed", f"The tasks upstream, {', '.join(task['type'] for task in chain)}, gave no event",
                remedy="Measure the task with a config of the tasks upstream that lets events pass.")
        events = feed.write(Path(path), batches, schema_json=compiled.schemas[-1])
        return {"events": events}

    def hurry(
        self, *, fragments: list[str], chain: list[Mapping[str, Any]], approved: bool = False
    ) -> dict[str, Any]:
        """Warm the driver up: run queries of a chain, batch after batch and without readers, until `rest`."""
        context = self._context
        tasks = [Task(warming(number), task["type"], task["config"]) for number, task in enumerate(chain)]
        context.spark.sparkContext.setLogLevel("OFF")  # whatever is wrong with them, the feed has told
        for fragment in fragments:
            written = [f"{fragment}.{position}" for position in range(len(tasks))]
            compiled = self._compile(Chain(fragment, tasks, (), written, approved=approved), context.config)
            self._warm_queries[fragment] = queries.start(
                compiled.frame, name=fragment, checkpoint=context.data_dir / "checkpoints" / fragment, trigger_ms=0)
        return {}

    def rest(self) -> dict[str, Any]:
        """Stop the queries that `hurry` started."""
        context = self._context
        for fragment, query in self._warm_queries.items():
            context.listener.forget([query.runId])
            with suppress(Exception):
                queries.stop(query, pause=partial(context.channels.pause, fragment), drain_s=DRAIN_S)
            shutil.rmtree(context.data_dir / "checkpoints" / fragment, ignore_errors=True)
        self._end_workers(self._warm_queries)
        self._warm_queries = {}
        context.spark.sparkContext.setLogLevel(LOG_LEVEL)
        return {}

    def begin(
        self, *, fragment: str, task_type: str, config: Mapping[str, Any], threads: int, schema_json: str | None,
        approved: bool = False,
    ) -> dict[str, Any]:
        """Start the task's query; with ``schema_json`` it reads the trial's channel, without it is a source."""
        context = self._context
        task = Task(MEASURED, task_type, config)
        inputs: list[str] = []
        if schema_json is not None:
            inputs = [f"{fragment}.in"]
            context.channels.open_channel(inputs[0], schema_json=schema_json, readers=[fragment])
        compiled = self._compile(
            Chain(fragment, [task], inputs, [f"{fragment}.0"], threads=threads, approved=approved), context.config)
        if context.task_types[task_type].terminal in ("output", "connector"):
            retain = int(config.get("keep_events") or 1_000)
            context.channels.open_channel(f"{fragment}.0", schema_json=compiled.schemas[0], retain=retain)
            context.channels.open_outlet(fragment, 0, from_batch=0)
        context.listener.watch(fragment)
        self._start(fragment, compiled, task)
        fence = context.channels.take_fence(inputs[0]) if inputs else 0
        return {"fence": fence, "code": self._code.get(task_type, "")}

    def look(self) -> dict[str, Any]:
        """The batches since the last look; an error where the query has failed."""
        context = self._context
        if self._query is not None and not self._query.isActive:
            failure = _failure(explain(queries.causes_of(self._query), task_code_of([self._task], context.task_types)))
            raise TrialFailed(failure["code"], failure["message"], remedy=failure["remedy"])
        documents = context.listener.watched(self._fragment, self._query)
        batches = [
            trial_figures.batch_of(document, started_s=_seconds(document["timestamp"])) for document in documents]
        return {"batches": [asdict(batch) for batch in batches if batch.events_in]}

    def end(self) -> dict[str, Any]:
        """Stop the query soon, and its Python workers, so that the next trial finds the slot as this one did."""
        context, query, self._query = self._context, self._query, None
        if query is not None:
            context.listener.forget([query.runId])
            context.listener.unwatch(self._fragment)
            context.spark.sparkContext.setLogLevel("OFF")  # a batch that takes longer fails, as it is meant to
            with suppress(Exception):
                queries.stop(query, pause=lambda: context.channels.pause(self._fragment), drain_s=DRAIN_S)
            self._end_workers((self._fragment,))
            shutil.rmtree(context.data_dir / "checkpoints" / self._fragment, ignore_errors=True)
            context.spark.sparkContext.setLogLevel(LOG_LEVEL)
        return {}

    def _end_workers(self, queries: Collection[str]) -> None:
        """End the Python workers; not where others' queries have come here meanwhile, which would fail without them."""
        if all(query.name in queries for query in self._context.spark.streams.active):
            end_python_workers()

    def _compile(self, chain: Chain, config: ChannelConfig) -> CompiledQuery:
        return compile_chain(
            self._context.spark, chain, config=config, task_types=self._context.task_types,
            take_fence=self._context.channels.take_fence, folder=self._context.data_dir,
        )

    def _start(self, fragment: str, compiled: CompiledQuery, task: Task) -> None:
        context = self._context
        context.spark.sparkContext.setLogLevel(LOG_LEVEL)
        frame = compiled.frame.observe(
            "weir", F.count(F.lit(1)).alias("events"), F.avg("_born").alias("born"))
        self._fragment, self._task = fragment, task
        self._query = queries.start(
            frame, name=fragment, checkpoint=context.data_dir / "checkpoints" / fragment,
            trigger_ms=context.trigger_ms, file_sink=compiled.file_sink,
        )

    def _await_events(self, channel: str) -> None:
        """Wait until enough events are there, or no more come."""
        deadline = time.monotonic() + FEED_S
        event_count, since = 0, time.monotonic()
        while event_count < feed.EVENTS and time.monotonic() < deadline:
            now = int(self._context.broker.hget(keys.meta(channel), "held") or 0)
            if now != event_count:
                event_count, since = now, time.monotonic()
            if event_count and time.monotonic() - since > STILL_S:
                return
            self.look()
            time.sleep(0.05)


def codes_of(task_types: TaskTypes) -> dict[str, str]:
    """The digest of each task type's code, by name."""
    return {name: _code_of(task_type) for name, task_type in task_types.items()}


def _code_of(task_type: TaskType) -> str:
    """The digest of a task type's code; empty where none comes of it: no plugin may keep a slot from starting."""
    try:
        return code_digest(task_type)
    except Exception:
        return ""


def _failure(failure: FragmentFailed) -> dict[str, str]:
    """A failure as a trial's answer: the task's own, or the broker's absence, which passes."""
    if failure.broker_is_away:
        return {"code": "slot_not_ready", "message": f"The broker was away: {failure}", "remedy": "Order it again."}
    return {"code": "task_failed", "message": str(failure),
            "remedy": "Correct the config, or the code of the task type."}


def end_python_workers() -> None:
    """Kill the Python workers of this process's driver; not the process that forks them, which makes new ones."""
    forked = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "workers.engine.spark.daemon" in process.cmdline():
                forked[process.pid] = process
    for process in forked.values():
        with suppress(psutil.Error):
            if process.ppid() in forked:
                os.kill(process.pid, signal.SIGKILL)


def _seconds(timestamp: str) -> float:
    """Spark's time of a trigger in seconds since the epoch."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
