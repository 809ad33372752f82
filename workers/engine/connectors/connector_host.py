"""The connector host of a node: one process that reads all of its live sources, and writes its sinks to other systems
(``workers.engine.sinks``), each on a thread.

    python -m workers.engine.connectors.connector_host       (started by the node agent; settings come from the
    environment)

Like a slot it reads lines from its standard input (``poke``: the desired state changed; ``stop``, or the end of the
input: end) and writes its report to its standard output, one JSON a line. What it has to do stands in the node's store;
where each source was left stands in the broker. So it may be killed at any moment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import redis

from scheduler.contracts.desired import made_in
from scheduler.contracts.reports import ConnectorReport
from scheduler.model.task_types import TaskType, TaskTypes
from workers.engine.agents.agent_logs import configure, logger
from workers.engine.agents.node_files.node_store import NewestDesired, NodeStore
from workers.engine.agents.supervising.broker_sync import connect
from workers.engine.agents.supervising.line_writer import LineWriter
from workers.engine.agents.supervising.secret_requests import RequestedSecrets, obey
from workers.engine.passing import PassingRecords, Phase
from workers.engine.retried import RETRYING, STARTING
from workers.engine.sealed_secrets import open_by, opened
from workers.engine.sinks.hosting import Sinks
from workers.engine.slot_values import UNREADABLE
from workers.engine.worker_settings import Settings, from_environment
from workers.library.columns import typed_columns
from workers.library.config import settings as with_defaults
from workers.library.registry import task_types

from .formats import layout_of
from .intake import IntakeStore
from .memory_watch import most_bytes, watch_memory
from .source_runner import HostedSource, Runner, words_of
from .source_selection import WantedSource, wanted_sources
from .source_suspects import Hosted, SourceSuspects

TICK_S = 0.25
QUIET_TICK_S = 1.0  # where nothing is left to do: a poke wakes it
REPORT_MS = 1_000
UNREADY_MS = 5_000  # between two tries of a source that cannot even begin
END_S = 4.0  # for a source to end
KEPT_MS = 15_000  # for which the channel of a source that nobody wants is kept: queries that read it are stopping


class ConnectorHost:
    """Brings the sources that run to those that are wanted, again and again."""

    def __init__(self, settings: Settings, *, tell: Callable[[Mapping[str, Any]], None], types: TaskTypes) -> None:
        self._settings, self._tell, self._types = settings, tell, types
        self._broker = connect(settings.redis_url)
        self._store = IntakeStore(self._broker)
        store = NodeStore(settings.data_dir, settings.node)
        self._newest, self._passing_records = NewestDesired(store), PassingRecords(store)
        self._runners: dict[str, Runner] = {}
        self._suspects = SourceSuspects(store.host_folder, clock_ms=_now_ms)
        self._held_back: dict[str, ConnectorReport] = {}  # sources that are not to be read now, by task
        self._ending: dict[str, tuple[Runner, int]] = {}  # by task: since when
        self._unwanted: dict[str, int] = {}  # what is in the broker of sources that nobody wants, by task: since when
        self._swept_version = 0
        self._wanted_then: frozenset[str] = frozenset()  # sources that were wanted at that version
        self._awaited_sources: dict[str, ConnectorReport] = {}  # sources that another node is to let go, by task
        self._sinks = Sinks(
            settings, self._broker, types, self._on_event, passing=self._passing_records, on_begin=self._note)
        self._registered: dict[str, frozenset[str]] = {}
        self._unready: dict[str, ConnectorReport] = {}  # sources that could not begin, by task
        self._closed: set[str] = set()  # sources whose channel is gone
        self._events: deque[dict[str, Any]] = deque(maxlen=1_000)
        self._reported: Any = None
        self._report_at_ms = 0
        self._problems: dict[str, str] = {}  # by what was not done
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._log = logger()

    def stop(self) -> None:
        """End: every source is closed between two blocks."""
        self._stopping.set()
        self._wake.set()

    def note_end(self, taken_bytes: int) -> None:
        """Note for the next host that this one ends, because it takes so much memory."""
        self._log.error("more memory was taken than may be", megabytes=taken_bytes >> 20)
        self._suspects.note_end(taken_bytes=taken_bytes)

    def note_crashes(self) -> None:
        """Leave word where it crashes, for the next one."""
        self._suspects.note_crashes()

    def poke(self) -> None:
        """Look at the desired state now."""
        self._wake.set()

    def run(self) -> None:
        """Serve until stopped."""
        while not self._stopping.is_set():
            is_settled = self._try(self.turn)
            self._try(self._say)
            self._wake.wait(QUIET_TICK_S if is_settled else TICK_S)
            self._wake.clear()
        for runner in self._runners.values():
            runner.stop()
        self._sinks.stop()
        deadline = time.monotonic() + END_S
        for runner in [*self._runners.values(), *(ending for ending, _ in self._ending.values())]:
            runner.join(max(0.0, deadline - time.monotonic()))
        self._sinks.join(deadline)

    def _try(self, do: Callable[[], object]) -> bool:
        """Do something that may fail for a time, and log the reason once; True if it was done, and its result is
        true."""
        try:
            is_settled = bool(do())
            self._problems.pop(do.__name__, None)
            return is_settled
        except Exception as error:
            if str(error) != self._problems.get(do.__name__):
                self._problems[do.__name__] = str(error)
                is_away = isinstance(error, redis.RedisError | OSError)
                self._log.warning(
                    "waiting for the broker" if is_away else "not all is looked after", error=str(error),
                    exc_info=None if is_away else error)
            return False

    def turn(self) -> bool:
        """One look; True where nothing is left to do for what is wanted now."""
        desired = self._newest()
        sources = wanted_sources(desired, self._types, let_go=self._passing_records.let_go())
        phases = {task: self._passing_records.phase_of(source.passed) for task, source in sources.items()}
        active = {
            task: source for task, source in sources.items() if source.readers or phases[task] is Phase.KEEP}
        sinks = self._sinks.wanted(desired)
        held_back = self._suspects.held((*self._sinks.names(sinks), *active), self._hosted)
        self._held_back = {task: report for task, report in held_back.items() if task in active}
        for task in self._runners.keys() - active.keys():
            self._end(task, for_good=task not in sources)
        overtaken = {task for task, runner in self._runners.items() if runner.is_overtaken}
        for task in (self._closed | overtaken) & self._runners.keys():  # or the broker has lost it: it is opened again
            self._end(task, for_good=False)
        self._closed.clear()
        for reports in (self._unready, self._awaited_sources):
            for task in reports.keys() - active.keys():
                del reports[task]
        self._clear(sources)
        is_settled = not (self._ending or self._unwanted or {Phase.KEEP, Phase.GIVE} & set(phases.values()))
        for task, source in sources.items():
            if phases[task] is Phase.GIVE and task not in self._ending:
                with suppress(*UNREADABLE):  # hosts of other nodes write of it, too
                    self._store.pass_on(
                        task, node=self._settings.node, to=source.passed.goes_to, heirs=source.passed.heirs)
                    self._passing_records.record_let_go(source.passed.heirs)
        for task, source in active.items():
            is_settled = self._look_at(task, source, phases[task]) and is_settled
        return self._sinks.turn(desired, sinks, held_back=held_back) and is_settled

    @property
    def _hosted(self) -> dict[str, Hosted]:
        return {**self._sinks.runners, **self._runners}

    def _note(self) -> None:
        self._suspects.note_work(self._hosted)

    def _look_at(self, task: str, source: WantedSource, phase: Phase) -> bool:
        """Begin a source, or see to its readers. One that cannot even begin, by its config or its package, takes no
        others with it."""
        if task in self._runners:
            with suppress(*UNREADABLE):  # a slot that reads the channel writes there, and may write what is none
                return self._register(task, source)
            return False
        if task in self._held_back:
            return True
        before = self._unready.get(task)
        if before is not None and _now_ms() < (before.retry_at_ms or 0):
            return True
        try:
            is_settled = self._begin(task, source, phase)
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            raise
        except Exception as error:
            message, now_ms = words_of(error), _now_ms()
            if before is None or before.error != message:
                self._on_event("connector_failed", task=task, error=message)
                self._log.warning("source cannot begin", connector=task[:12], task=task, error=message)
            self._unready[task] = replace(
                before or ConnectorReport(RETRYING, now_ms), error=message, retry_at_ms=now_ms + UNREADY_MS,
                restarts=before.restarts + 1 if before else 0)
            return True
        self._unready.pop(task, None)
        return is_settled

    # -- beginning and ending ------------------------------------------------------------------------------------------

    def _begin(self, task: str, source: WantedSource, phase: Phase) -> bool:
        """Open a source and start to read it; False where its last runner has not ended yet, or another node has it."""
        if task in self._ending and not self._ending[task][0].join(0):
            return False
        self._ending.pop(task, None)
        prepared = self._source(source)
        awaited = self._awaited_sources.get(task)
        if awaited is None or phase is not Phase.OWN:
            awaited = self._awaited_sources[task] = ConnectorReport(STARTING, _now_ms())
        token = self._store.open(
            task, prepared.layout, known_readers=source.known_readers, node=self._settings.node,
            by_force=phase is Phase.OWN and self._store.leases.may_be_forced(
                task, waited_ms=_now_ms() - awaited.since_ms))
        if token is None:
            return False
        del self._awaited_sources[task]
        self._register(task, source)
        runner = Runner(prepared, self._store, token=token, on_event=self._on_event)
        self._runners[task] = runner
        self._note()
        runner.start()
        return task in self._registered

    def _source(self, source: WantedSource) -> HostedSource:
        task_type = self._types[source.task.type]
        config = with_defaults(task_type, source.task.config)
        return HostedSource(
            source.task.id, layout_of(config), config["keep_dead"], opener_of(task_type),
            lambda: {**config, "columns": list(typed_columns(config["columns"])), **{
                name: value for name, value in opened(
                    config, redis_url=self._settings.redis_url, data_dir=self._settings.data_dir).items()
                if name != "columns"}}, self._settings.node)

    def _register(self, task: str, source: WantedSource) -> bool:
        """Give readers their places, and take away those of readers that are gone; False while one has none yet."""
        readers, generation = frozenset(source.readers), self._newest().generation
        if self._registered.get(task) == readers:
            return True
        self._store.know(task, readers)
        registered = self._store.registered(task)
        joined = [
            reader for reader, before in source.readers.items()
            if reader in registered or self._store.join(task, reader, predecessors=sorted(before))]
        for reader in registered - source.known_readers:
            if made_in(reader) <= generation:  # one of a later plan has taken over already: a slot may hear first
                self._store.leave(task, reader)
        if len(joined) < len(readers):
            return False
        self._registered[task] = readers
        return True

    def _end(self, task: str, *, for_good: bool) -> None:
        runner = self._runners.pop(task)
        runner.stop(for_good=for_good)
        self._ending[task] = (runner, _now_ms())
        self._registered.pop(task, None)

    def _clear(self, sources: Mapping[str, WantedSource]) -> None:
        """Forget runners that have ended, and remove what sources have left that nobody wants."""
        now_ms = _now_ms()
        for task, (runner, since_ms) in list(self._ending.items()):
            if task in sources:  # it rests, or is wanted again: its position stays
                if runner.join(0):
                    del self._ending[task]
            elif now_ms - since_ms >= KEPT_MS and runner.join(0):
                self._store.delete(task, node=self._settings.node)
                del self._ending[task]
        self._sweep(sources, now_ms)

    def _sweep(self, sources: Mapping[str, WantedSource], now_ms: int) -> None:
        """Remove what is left of sources that went while they rested, or while no host was there to clear up."""
        version = self._newest().version
        if version > self._swept_version:
            for task in self._wanted_then - sources.keys():  # one that came from another node, and rested here
                if self._store.leases.holder(task) == self._settings.node:
                    self._store.leases.take(task, self._settings.node)
            self._wanted_then = frozenset(sources)
            hosted = self._store.leases.names(self._settings.node) - sources.keys() - self._ending.keys()
            self._unwanted = {task: self._unwanted.get(task, now_ms) for task in hosted}
            self._swept_version = version
        for task, since_ms in list(self._unwanted.items()):
            if now_ms - since_ms >= KEPT_MS:
                self._store.delete(task, node=self._settings.node)
                del self._unwanted[task]

    # -- telling -------------------------------------------------------------------------------------------------------

    def _on_event(self, kind: str, **facts: Any) -> None:
        self._events.append({"kind": kind, "at_ms": _now_ms(), **facts})
        self._wake.set()

    def _say(self) -> None:
        now_ms = _now_ms()
        reports = {
            **self._awaited_sources, **self._unready, **self._held_back,
            **{task: runner.report() for task, runner in self._runners.items()}}
        shape = {task: (report.state, report.error, report.restarts) for task, report in reports.items()}
        shape = (shape, self._sinks.shape())
        if shape == self._reported and now_ms < self._report_at_ms and not self._events:
            return
        self._reported, self._report_at_ms = shape, now_ms + REPORT_MS
        events = [self._events.popleft() for _ in range(len(self._events))]
        states = {}
        with suppress(redis.RedisError):
            states = self._store.states(list(reports))
        self._closed |= {task for task, state in states.items() if task in self._runners and not state.is_open}
        at_hand = (self._runners, self._held_back, self._ending, self._unwanted, self._unready, self._awaited_sources)
        is_idle = not any(at_hand) and self._sinks.is_idle
        self._tell({"state": "running", "events": events, "sinks": self._sinks.reports(), "idle": is_idle,
                    "connectors": {
            task: {
                "state": report.state, "since_ms": report.since_ms, "error": report.error,
                "retry_at_ms": report.retry_at_ms, "restarts": report.restarts,
                **({"events": states[task].seq, "dead": states[task].dead, "at_ms": states[task].at_ms}
                   if task in states else {})}
            for task, report in reports.items()}})


def opener_of(task_type: TaskType) -> Callable[..., Any] | None:
    """The function that opens sources of a type; None for those that are pushed to."""
    if not task_type.connector:
        return None
    module, _, function = task_type.connector.partition(":")
    return getattr(import_module(module), function)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Run the connector host of a node."""
    settings = from_environment()
    tell = LineWriter(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configure(sys.stderr, node=settings.node, slot="connectors")
    host = ConnectorHost(settings, tell=tell, types=task_types())
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: host.stop())
    host.note_crashes()
    watch_memory(most_bytes(settings.connector_memory_mb), host.note_end)
    requested = RequestedSecrets(tell)
    open_by(requested)
    orders = {"stop": host.stop, "poke": host.poke, "secrets": requested}
    threading.Thread(target=obey, args=(sys.stdin,), kwargs=orders, name="commands", daemon=True).start()
    host.run()
    os._exit(0)  # clients' threads have nothing left to say


if __name__ == "__main__":
    main()
