"""The node agent: supervises slots, hands them what they are to run, and reports what runs.

    python -m workers.engine.agents.node_agent --node n1 --slots 2 --data-dir data

It keeps its own copy of the desired state and its slots keep theirs of what runs, so that the site, Celery and the
broker may go and come back while dataflows run.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spill import spill_folder
from workers.engine.connectors.source_selection import wants_connectors
from workers.engine.files.keeper import FileKeeper, FileThread
from workers.engine.measuring.calibration import Calibration
from workers.engine.measuring.machine_class import disk_of, machine_class, slot_memory_mb
from workers.engine.passing import PassingRecords
from workers.engine.spark.pinning import core_of, pinning
from workers.engine.spark.scratch import clear_spares
from workers.engine.worker_settings import Settings, from_environment
from workers.library.registry import task_types
from workers.processes import adopt_orphans

from .agent_logs import configure, logger, passed_on
from .node_files.node_store import NewestDesired, NodeStore
from .reconciling.started_fragments import FileLock
from .supervising.archiver import Archiver
from .supervising.broker_sync import DesiredStateWatcher, ReportPublisher, connect
from .supervising.broker_users import CONNECTORS, BrokerUsers
from .supervising.confinement import Confinement, command_of, trusted_environment, unconfined
from .supervising.copy_holders import holders_thread
from .supervising.driver_page_fetching import driver_pages_thread
from .supervising.lease import Lease, LeaseState
from .supervising.log_keeper import LogAnswers, LogKeeper
from .supervising.look_runner import LookRunner
from .supervising.qos_agent import NodeQos, QosThread, reports_of
from .supervising.saved_parts import SavedParts
from .supervising.secret_opening import Opener
from .supervising.slot_usage import TreeMeter, Usage
from .supervising.spiller import Spiller, SpillThread, shared_inputs
from .supervising.state_elsewhere import StateElsewhere
from .supervising.supervision import READY, SPARE, SlotProcess, Spare, reap_orphans
from .supervising.trial_runner import TrialRunner
from .supervising.usage_attribution import UsageAttribution

REPORT_MS = 1_000
CHECK_MS = 250  # how often slots are looked at, so that one that stalls is told of soon
CALM_MS = 20_000  # all slots have run for so long: a spare is made ready
NEWS_MS = 200  # news goes out sooner than the next second, but not more often than this
CLOSE_S = 0.7  # for files that sinks have staged; the rest is closed when the agent is back
DRAIN_S = 5.0  # of the 8 s that a shutdown may take, killing included


class NodeAgent:
    """The agent of one node.

    Parameters
    ----------
    slot_argv : callable, optional
        The command of a slot by its index; tests put a process of their own in a slot's place.
    """

    def __init__(
        self, settings: Settings, *, slot_argv: Callable[[str], Sequence[str]] | None = None, tells_slots: bool = True
    ) -> None:
        self._tells_slots = tells_slots
        self._settings = settings
        self._store = NodeStore(settings.data_dir, settings.node)
        self._slot_argv = slot_argv or command_of
        self._broker = connect(settings.redis_url)
        self._users = BrokerUsers(self._broker, settings.redis_url, self._store, has_copies=settings.copies > 0)
        self._confinement = (Confinement if slot_argv is None else unconfined)(settings, self._users)
        self._lease = Lease(self._broker, settings.node, folder=self._store.folder)
        self._stopping, self._wake, self._news = threading.Event(), threading.Event(), threading.Event()
        self._lease_state, self._version = LeaseState.UNKNOWN, 0
        self._slots: list[SlotProcess] = []
        self._connectors: SlotProcess | None = None  # while there are connectors
        self._spare: Spare | None = None
        self._trial_runner: TrialRunner | None = None  # from when on it has its folder to itself
        self._look_runner: LookRunner | None = None  # likewise
        self._archiver: Archiver | None = None
        self._meters: dict[tuple[str, int], TreeMeter] = {}  # by slot (or spare) and process
        self._shares: dict[str, UsageAttribution] = {}
        self._newest = newest = NewestDesired(self._store)
        self._opener = Opener(settings, newest)
        self._logs = LogKeeper(data_folder=str(settings.data_dir), echo=passed_on(sys.stdout))
        self._passing_records, self._saved = PassingRecords(self._store), SavedParts(settings.data_dir, settings.node)
        self._spiller = Spiller(
            Channels(self._broker), spill_folder(settings.data_dir, settings.node),
            readers=lambda: shared_inputs(newest()),
            hold_ms=round(settings.hold_s * 1000),
            most_bytes=settings.spill_mb << 20, team_bytes=settings.spill_team_mb << 20)
        self._qos: NodeQos | None = None  # likewise
        self._calibration = Calibration(
            self._store.folder / "speed.json", machine=machine_class(settings.slots))
        self._memory_mb, self._log = psutil.virtual_memory().total >> 20, logger()

    def stop(self) -> None:
        """Drain and end; safe in a signal handler."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Serve until stopped. Must run in the process's main thread, which is the slots' parent."""
        adopt_orphans()
        lock = FileLock(self._store.folder / "agent.lock")
        self._wait_until(lock.acquire, "another agent of this name runs from this folder")
        self._store.take_over()
        self._wait_until(StateElsewhere(self._broker, self._store).may_begin, "others may have copies of what ran here")
        self._confinement.prepare()
        publisher = ReportPublisher(self._broker, self._settings, self._lease, on_lease_state=self._on_lease_state)
        watcher = DesiredStateWatcher(
            self._broker, self._store, on_change=self._on_desired, on_coming=self._users.expect,
            cycle_s=self._settings.supervisor_cycle_s)
        self._trial_runner = TrialRunner(
            self._settings, slots=lambda: self._slots, folder=self._store.folder, task_types=task_types(),
            on_trial=self._users.let_trial, apart=self._confinement.apart)
        self._look_runner = LookRunner(self._settings, self._confinement, slots=lambda: self._slots)
        self._qos = NodeQos(
            self._broker, self._store, reports=lambda: reports_of(self._slots), chance=random.Random(),
            on_intervals=self._poke_slots, on_event=publisher.send_event)
        files = FileThread(FileKeeper.of(self._settings, report=self._log.warning), enter=self._confinement.enter)
        threads = (
            *holders_thread(self._broker, self._store, self._settings, slots=lambda: self._slots, users=self._users),
            publisher, watcher, SpillThread(self._spiller, clock_ms=_now_ms),
            QosThread(self._qos, clock_s=time.time, cycle_s=self._settings.supervisor_cycle_s),
            self._look_runner, self._trial_runner, LogAnswers(self._broker, self._settings.node, self._logs),
            *driver_pages_thread(self._broker, self._settings, slots=lambda: self._slots))
        while not self._stopping.is_set():
            if not self._wait_until(self._may_serve, "the broker does not grant the lease of this node's name"):
                break
            self._users.look(is_away=self._lease_state is not LeaseState.HELD)
            for thread in (*threads, files):
                if not thread.is_alive():
                    thread.start()
            self._serve(publisher)
        files.stop(within_s=CLOSE_S)
        for thread in reversed(threads):
            thread.stop()
        if self._lease_state is LeaseState.HELD:
            self._lease.give_back()
        self._confinement.clear()
        lock.release()

    def _serve(self, publisher: ReportPublisher) -> None:
        """Keep the slots running until the agent is stopped or its lease is taken."""
        clear_spares(self._store.folder)

        def made(kind: type[SlotProcess], name: str, **more: Any) -> SlotProcess:
            return kind(
                name, self._slot_argv(name), env={}, on_news=self._on_news, on_event=publisher.send_event,
                enclose=self._confinement.enclosed, answer=self._opener.answer, log=self._logs.listen, **more)

        self._spare = made(Spare, SPARE) if self._settings.spares else None
        if self._settings.class_archive and not self._settings.spark_master:
            self._archiver = Archiver(trusted_environment(self._settings))
        self._slots = [
            made(SlotProcess, str(index), spare=self._spare, works_for=self._users.works_for)
            for index in range(self._settings.slots)]
        self._connectors, self._version = None, self._store.read_desired().version
        self._log.info("agent serves", slots=len(self._slots), version=self._version)
        report_at_ms, reported_states = 0, []
        while not self._stopping.is_set() and self._lease_state is not LeaseState.TAKEN:
            now_ms = _now_ms()
            for slot in self._slots:
                if slot.check(now_ms):
                    publisher.send_event(
                        "slot_died", at_ms=now_ms, slot=slot.name, restarts=slot.restarts, error=slot.error)
                    if slot.death is not None:
                        self._store.write_death(slot.name, slot.death)
                    slot.check(now_ms)  # it starts again at once, where it is to
            self._look_after_connectors(made, now_ms)
            if self._spare is not None and (self._spare.pid is not None or self._is_calm(now_ms)):
                self._spare.check(now_ms)
            if self._archiver is not None:
                self._archive_classes(self._archiver, now_ms)
            if not self._settings.spark_master:
                self._calibration.turn(now_ms, is_calm=self._is_calm(now_ms))
            if (states := [slot.state for slot in self._slots]) != reported_states:
                self._news.set()
            children = {slot.pid for slot in self._processes} | self._own_pids
            reap_orphans(children if self._archiver is None else children | {self._archiver.pid})
            if now_ms >= report_at_ms or self._news.is_set():
                self._news.clear()
                reported_states = states
                publisher.send_report(self._report(now_ms))
                report_at_ms = now_ms + REPORT_MS
                time.sleep(NEWS_MS / 1000)
            self._wake.wait(max(0, min(CHECK_MS, report_at_ms - _now_ms())) / 1000)
            self._wake.clear()
        if self._lease_state is LeaseState.TAKEN:
            self._log.error("another agent has taken this node's name; standing down")
        self._end_slots()

    def _archive_classes(self, archiver: Archiver, now_ms: int) -> None:
        """Begin once all slots, and the spare, run: nobody is to wait for it."""
        if self._is_calm(now_ms) and (self._spare is None or self._spare.state == READY):
            archiver.start()
        archiver.check()

    def _end_slots(self) -> None:
        deadline = time.monotonic() + DRAIN_S
        self._calibration.stop()
        if self._archiver is not None:
            self._archiver.end()
        for slot in self._processes:
            slot.ask_to_stop()
        for slot in self._processes:
            slot.end(deadline=deadline)
        self._slots, self._spare, self._connectors = [], None, None
        self._log.info("slots ended")

    @property
    def _own_pids(self) -> set[int]:
        """Of processes that others than the slots' supervision wait for."""
        runners = (self._trial_runner, self._look_runner)
        return {pid for runner in runners if runner is not None for pid in runner.pids}

    @property
    def _processes(self) -> list[SlotProcess]:
        others = (self._spare, self._connectors)
        return [*self._slots, *(process for process in others if process is not None)]

    def _look_after_connectors(self, made: Callable[[type[SlotProcess], str], SlotProcess], now_ms: int) -> None:
        """A host of connectors runs while connectors are wanted, and until it has cleared up behind them."""
        if self._connectors is None:
            if not self._wants_connectors():
                return
            self._connectors = made(SlotProcess, CONNECTORS)
        host = self._connectors
        if host.report.get("idle") and not self._wants_connectors():
            host.ask_to_stop()
            host.end(deadline=time.monotonic() + 1.0)
            self._connectors = None
        else:
            host.check(now_ms)

    def _wants_connectors(self) -> bool:
        return wants_connectors(self._newest(), task_types(), let_go=self._passing_records.let_go())

    def _connectors_report(self, now_ms: int) -> dict[str, Any] | None:
        host = self._connectors
        if host is None:
            return None
        usage = self._usage_of(host, now_ms)
        return {
            "state": host.state, "error": host.error, "restarts": host.restarts, "pid": host.pid,
            "cpu": usage.cpu if usage else 0.0, "memory_mb": usage.memory_mb if usage else 0,
            "sources": host.report.get("connectors", {}), "sinks": host.report.get("sinks", {})}

    def _is_calm(self, now_ms: int) -> bool:
        """Whether all slots have run for a while: a spare must not take CPU from what is coming back."""
        return all(
            slot.state == "running" and now_ms - (slot.serves_since_ms or now_ms) >= CALM_MS for slot in self._slots)

    def _spare_report(self, now_ms: int) -> dict[str, Any] | None:
        if self._spare is None:
            return None
        usage = self._usage_of(self._spare, now_ms)
        return {"state": self._spare.state, "cpu": usage.cpu if usage else 0.0,
                "memory_mb": usage.memory_mb if usage else 0}

    def _usage_of(self, process: SlotProcess, now_ms: int) -> Usage | None:
        """What a slot or the spare uses. What a driver took as a spare is not its slot's: its teams pay for that."""
        if process.pid is None:
            return None
        key = (process.name, process.pid)
        if key not in self._meters:
            living = {(living.name, living.pid) for living in self._processes}
            self._meters = {process: meter for process, meter in self._meters.items() if process in living}
            self._meters[key] = TreeMeter(process.pid, from_now=process.was_spare)
        return self._meters[key].sample(now_ms)

    def _report(self, now_ms: int) -> dict[str, Any]:
        return {
            "node": self._settings.node, "version": self._version, "at_ms": now_ms,
            "cores": os.cpu_count(), "memory_mb": self._memory_mb,
            "machine": machine_class(self._settings.slots),
            "threads": self._settings.slot_cores if self._settings.spark_master else self._settings.threads,
            **self._calibration.report(),
            "pinning": pinning(self._settings, cores=len(os.sched_getaffinity(0))), "link": self._settings.link,
            "unwalled": self._confinement.missing(),
            **disk_of(self._settings.data_dir),
            "spare": self._spare_report(now_ms),
            "connectors": self._connectors_report(now_ms),
            **self._spiller.report(), "savepoints": self._saved.report(self._newest()),
            "qos": self._qos.version if self._qos is not None else 0,
            "handing_over": self._passing_records.still_leaving(self._newest(), task_types()),
            "slots": {slot.name: self._slot_report(slot, now_ms) for slot in self._slots},
        }

    def _slot_report(self, slot: SlotProcess, now_ms: int) -> dict[str, Any]:
        pid = slot.pid
        usage = self._usage_of(slot, now_ms)
        fragments = slot.report.get("fragments", {})
        if usage is not None and slot.state == "running":
            taken = self._shares_of(slot.name).take(usage, slot.report, now_ms=now_ms)
            fragments = {name: {**report, **taken.get(name, {})} for name, report in fragments.items()}
        return {
            "state": slot.state,
            "error": slot.error,
            "silent_ms": slot.silent_ms(now_ms), "retry_at_ms": slot.retry_at_ms,
            "pid": pid,
            "core": core_of(pid) if pid is not None else None,
            "cpu": usage.cpu if usage else 0.0,
            "memory_mb": usage.memory_mb if usage else 0,
            "memory_trend_mb_per_h": usage.memory_trend_mb_per_h if usage else None,
            "used": {"since_ms": usage.since_ms, "cpu_ms": usage.cpu_ms, "memory_mb_s": usage.memory_mb_s}
            if usage else None,
            "restarts": slot.restarts, "since_ms": slot.since_ms,
            "has_spark_page": bool(slot.report.get("spark_page")),
            "fragments": fragments,
        }

    def _shares_of(self, slot: str) -> UsageAttribution:
        if slot not in self._shares:
            self._shares[slot] = UsageAttribution(
                slot_memory_mb=slot_memory_mb(self._settings.slots), base_path=self._store.slot_dir(slot) / "base_mb")
        return self._shares[slot]

    def _on_desired(self) -> None:
        self._version = self._store.read_desired().version
        self._poke_slots()

    def _poke_slots(self) -> None:
        for process in self._processes:
            if process is not self._spare and self._tells_slots:
                process.poke()

    def _on_news(self) -> None:
        self._news.set()
        self._wake.set()

    def _on_lease_state(self, standing: LeaseState) -> None:
        if standing is not LeaseState.UNKNOWN:  # while the broker is away, what was true stays true
            self._lease_state = standing
            if standing is LeaseState.TAKEN:
                self._wake.set()
        self._users.look(is_away=standing is not LeaseState.HELD)

    def _may_serve(self) -> bool:
        """The lease is held; or the broker is away, so that nobody can take it, and the store knows what ran here."""
        standing = self._lease.renew()
        if standing is LeaseState.UNKNOWN:
            return self._lease_state is LeaseState.UNKNOWN and self._store.desired_path.exists()
        self._lease_state = standing
        return standing is LeaseState.HELD

    def _wait_until(self, is_so: Callable[[], bool], reason: str) -> bool:
        has_spoken = False
        while not self._stopping.is_set():
            if is_so():
                return True
            if not has_spoken:
                self._log.warning("waiting", why=reason)
                has_spoken = True
            reap_orphans(self._own_pids)  # of slots that ended
            self._stopping.wait(0.25)
        return False


def main(argv: Sequence[str] | None = None, **more: Any) -> None:
    """The command line of a node agent; what it does not say comes from the environment.

    ``more`` goes to `NodeAgent`.
    """
    settings = from_environment()
    parser = argparse.ArgumentParser(description="Run the agent of one node.")
    parser.add_argument("--node", default=settings.node)
    parser.add_argument("--slots", type=int, default=settings.slots)
    parser.add_argument("--data-dir", type=Path, default=settings.data_dir)
    options = parser.parse_args(argv)
    settings = replace(settings, node=options.node, slots=options.slots, data_dir=options.data_dir.resolve())
    configure(sys.stdout, node=settings.node)
    node = NodeAgent(settings, **more)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda *_: node.stop())
    node.run()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
