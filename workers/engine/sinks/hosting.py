"""The sinks of a connector host, reconciled repeatedly with the wanted ones.

An unwanted sink still writes the rest of its channel, for ten minutes at most.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import redis

from scheduler.contracts.desired import DesiredState
from scheduler.contracts.reports import ConnectorReport, SinkReport
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.usage_attribution import Rates
from workers.engine.passing import PassingRecords, Phase
from workers.engine.retried import STARTING
from workers.engine.sealed_secrets import opened
from workers.engine.slot_values import UNREADABLE
from workers.engine.worker_settings import Settings
from workers.library.config import settings as with_defaults

from .contract import Sink
from .sink_runner import SinkRunner
from .sink_selection import WantedSink, wanted_sinks
from .sink_store import SinkStore

QUIET_MS = 15_000  # for which a channel may still be written whose sink nobody wants: its query is stopping
DRAIN_MS = 600_000  # after which what cannot be written is given up, of a sink that nobody wants


class Sinks:
    """Parameters
    ----------
    settings : Settings
        Node, data folder and broker.
    broker : redis.Redis
        A client that does not decode responses.
    types : mapping of str to TaskType
        The catalogue.
    on_event : callable
        Takes a kind and facts.
    passing : PassingRecords
        Records of sinks that pass between this node and others.
    on_begin : callable
        Is called before a sink begins, which is in ``runners`` then.
    """

    def __init__(
        self, settings: Settings, broker: redis.Redis, types: Mapping[str, TaskType], on_event: Callable[..., None],
        *, passing: PassingRecords, on_begin: Callable[[], None],
    ) -> None:
        self._on_begin = on_begin
        self._settings, self._types, self._on_event = settings, types, on_event
        self._store, self._passing_records = SinkStore(broker), passing
        self._awaited_since_ms: dict[str, int] = {}  # since when (ms) another node is to let go, by channel
        self._lives = Lives(NodeStore(settings.data_dir, settings.node).host_folder / "sinks.json")
        self.runners: dict[str, SinkRunner] = {}  # by channel
        self._held_back: dict[str, tuple[str, SinkReport]] = {}  # tasks that are not to be written now, by channel
        self._unwanted: dict[str, int] = {}  # since when (ms), by channel
        self._is_swept = False
        self._rates = Rates()

    @property
    def is_idle(self) -> bool:
        """True where there is nothing to write, and nothing to clear up."""
        return not (self.runners or self._awaited_since_ms or self._held_back)

    def wanted(self, desired: DesiredState) -> dict[str, WantedSink]:
        """The sinks that are to be written, by channel."""
        return wanted_sinks(desired, self._types, let_go=self._passing_records.let_go())

    def names(self, sinks: Mapping[str, WantedSink]) -> list[str]:
        """The channels of wanted sinks, of sinks that still write, and of those that another host has left."""
        abandoned = () if self._is_swept else self._store.left(self._settings.node)
        return [*dict.fromkeys((*sinks, *self.runners, *abandoned))]

    def turn(
        self, desired: DesiredState, sinks: Mapping[str, WantedSink], *, held_back: Mapping[str, ConnectorReport]
    ) -> bool:
        """One look; True where nothing is left to do for what is wanted now. Those that are held do not begin."""
        self._held_back = {
            channel: (sink.task.id, _sink_report(held_back[channel])) for channel, sink in sinks.items()
            if channel in held_back}
        phases = {channel: self._passing_records.phase_of(sink.passed) for channel, sink in sinks.items()}
        for channel in self._awaited_since_ms.keys() - sinks.keys():
            del self._awaited_since_ms[channel]
        for channel, sink in sinks.items():
            self._unwanted.pop(channel, None)
            if phases[channel] is Phase.GIVE:
                self._let_go(sink)
            elif channel not in self.runners:
                if channel not in held_back:
                    self._await(sink, phases[channel])
            elif phases[channel] is Phase.KEEP and self._store.leases.holder(channel) != self._settings.node:
                self._end_runner(channel)
            else:
                self.runners[channel].drain(False)
        if not self._is_swept and desired.version:
            self._sweep(sinks, held_back)
        for channel in self.runners.keys() - sinks.keys():
            self._end(channel)
        return not (self._unwanted or self._awaited_since_ms or {Phase.KEEP, Phase.GIVE} & set(phases.values()))

    def reports(self) -> dict[str, dict[str, Any]]:
        """Reports of sinks, by running task."""
        now_ms, reports = _now_ms(), {}
        standings = {}
        shown = self._reports()
        with suppress(redis.RedisError):
            for channel in shown:
                with suppress(*UNREADABLE):  # a slot writes the channel, and may write what is none
                    standings[channel] = self._store.standing(channel)
        self._rates.take({channel: standing.events for channel, standing in standings.items()}, at_ms=now_ms)
        for channel, (task, report) in shown.items():
            standing = standings.get(channel)
            reports[task] = {
                **asdict(report), "channel": channel, "rate_per_s": self._rates.per_s(channel),
                **({name: value for name, value in asdict(standing).items() if name != "position"}
                   if standing else {})}
        return reports

    def shape(self) -> Any:
        """The part of the reports of which a change is news."""
        return {channel: (report.state, report.error, report.restarts)
                for channel, (_, report) in self._reports().items()}

    def _reports(self) -> dict[str, tuple[str, SinkReport]]:
        """Task and report of each, by channel."""
        return self._held_back | {
            channel: (runner.sink.task, runner.report()) for channel, runner in self.runners.items()}

    def stop(self) -> None:
        """End all between two batches."""
        for runner in self.runners.values():
            runner.stop()

    def join(self, deadline: float) -> None:
        """Wait for all to end."""
        for runner in self.runners.values():
            runner.join(max(0.0, deadline - time.monotonic()))

    # -- beginning and ending ------------------------------------------------------------------------------------------

    def _await(self, sink: WantedSink, phase: Phase) -> None:
        """Begin a sink, once no other node holds it."""
        now_ms, channel = _now_ms(), sink.channel
        since_ms = self._awaited_since_ms.get(channel, now_ms) if phase is Phase.OWN else now_ms
        by_force = phase is Phase.OWN and self._store.leases.may_be_forced(channel, waited_ms=now_ms - since_ms)
        if self._begin(sink, by_force=by_force):
            self._awaited_since_ms.pop(channel, None)
        else:
            self._awaited_since_ms[channel] = since_ms

    def _begin(self, wanted_sink: WantedSink, *, by_force: bool = False) -> bool:
        task, channel = wanted_sink.task, wanted_sink.channel
        life = self._store.open(
            channel, node=self._settings.node, life=self._lives.of(channel),
            task={"id": task.id, "type": task.type, "config": dict(task.config)}, by_force=by_force)
        if life is None:
            return False
        self._lives.keep(channel, life)
        task_type = self._types[task.type]
        config = with_defaults(task_type, task.config)
        sink = Sink(
            task.id, channel, f"weir-{life}", keep_events=config["keep_events"], keep_refused=config["keep_refused"],
            open=partial(_open, task_type), folder=self._settings.data_dir / "tables",
            config=lambda: opened(config, redis_url=self._settings.redis_url, data_dir=self._settings.data_dir))
        runner = SinkRunner(sink, self._store, on_event=self._on_event)
        self.runners[channel] = runner
        self._on_begin()
        runner.start()
        return True

    def _let_go(self, sink: WantedSink) -> None:
        """Let another node write a sink on: what waits in its channel, too."""
        if self._end_runner(sink.channel):
            self._store.leases.pass_on(sink.channel, self._settings.node, to=sink.passed.goes_to)
            self._lives.forget(sink.channel)
            self._passing_records.record_let_go(sink.passed.heirs)

    def _end_runner(self, channel: str) -> bool:
        """End it between two batches; whether it has."""
        runner = self.runners.get(channel)
        if runner is None:
            return True
        runner.stop()
        if runner.join(0):
            del self.runners[channel]
            return True
        return False

    def _end(self, channel: str) -> None:
        """Let a sink write what waits, then let it go."""
        runner, now_ms = self.runners[channel], _now_ms()
        since_ms = self._unwanted.setdefault(channel, now_ms)
        runner.drain(True)
        if now_ms - since_ms >= (QUIET_MS if runner.is_empty else DRAIN_MS):
            runner.stop()
            if runner.join(0):
                self._store.leave(channel, node=self._settings.node)
                self._lives.forget(channel)
                del self.runners[channel], self._unwanted[channel]

    def _sweep(self, sinks: Mapping[str, WantedSink], held_back: Mapping[str, ConnectorReport]) -> None:
        """Once: what a host has left that was killed while it wrote what nobody wants any more. Who ended that host is
        given up."""
        self._is_swept = True
        for channel, task in self._store.left(self._settings.node).items():
            if channel in sinks or channel in self.runners:
                continue
            if channel in held_back and held_back[channel].state == STARTING:  # its turn comes
                self._is_swept = False
                continue
            is_known = task.get("type") in self._types and channel not in held_back
            if not is_known or not self._begin(WantedSink(Task(**task), channel)):
                self._store.leave(channel, node=self._settings.node)


class Lives:
    """The lives of sinks on the node's disk, beside its checkpoints, for a broker that has lost them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._lives: dict[str, str] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._lives = {}

    def of(self, channel: str) -> str:
        """The life of a channel's sink; "" where none is known."""
        return self._lives.get(channel, "")

    def keep(self, channel: str, life: str) -> None:
        """Remember it."""
        if self._lives.get(channel) != life:
            self._lives[channel] = life
            self._write()

    def forget(self, channel: str) -> None:
        """The sink is gone."""
        if self._lives.pop(channel, None) is not None:
            self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        with temporary.open("w") as file:
            json.dump(self._lives, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)


def _open(task_type: TaskType, opening: Any) -> Any:
    module, _, function = (task_type.writer or "").partition(":")
    return getattr(import_module(module), function)(opening)


def _sink_report(report: ConnectorReport) -> SinkReport:
    return SinkReport(report.state, report.since_ms, report.error, report.retry_at_ms, report.restarts)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
