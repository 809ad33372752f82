"""A slot: one Spark driver, which reconciles its queries with the desired state.

    python -m workers.engine.agents.slot --slot 0        (started by the node agent; settings come from the environment)
    python -m workers.engine.agents.slot --spare         (ready for the line ``take <slot>``, see ``spare.py``)

It reads lines from standard input: ``poke`` (the desired state changed), ``trial`` with a JSON (``trial_host.py``), and
``stop``, or the end of the input (drain and end). It writes its report and answers to standard output, one JSON a line.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import redis
from pyspark.sql import SparkSession

from scheduler.contracts.desired import DesiredState
from workers.engine.channels import keys
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.measuring.trial_host import Host, TrialContext
from workers.engine.sealed_secrets import open_by
from workers.engine.spark import driver_page, queries
from workers.engine.spark.compile import task_code_of
from workers.engine.spark.driver_warming import REST_S, warm_up
from workers.engine.spark.failure_messages import explain
from workers.engine.spark.listener import QueryListener
from workers.engine.spark.session import open_session
from workers.engine.worker_settings import Settings, from_environment
from workers.library.registry import task_types

from .agent_logs import configure, logger
from .failing.coming_back import AT_ONCE, in_turn
from .failing.hanging import HangingWatch
from .failing.leftovers import Leftovers
from .failing.suspects import Suspects
from .node_files.node_store import NewestDesired, NodeStore
from .reconciling.context import SlotContext
from .reconciling.desired_view import DesiredView, Looking
from .reconciling.executor import FragmentExecutor
from .reconciling.fragment_run import FragmentRun
from .reconciling.given_keys import keys_change_hands, not_given
from .reconciling.handover_stages import AT_WORK, HandoverStage
from .reconciling.long_batches import LOOK_MS, LongBatches, batching, in_first_batch
from .reconciling.named_savepoints import unsaved
from .reconciling.query_engine import SparkEngine
from .reconciling.query_meters import read_meters
from .reconciling.reconcile import Action, FragmentState, reconcile
from .reconciling.standby import Patience, heirs_due, rest_s, stages_of
from .reconciling.started_fragments import SlotStore
from .reconciling.state_copies import QueryCopies
from .reconciling.state_sizes import StateSizes
from .supervising.broker_sync import connect
from .supervising.driver_end import end_in_turn, is_ending, refusal_told
from .supervising.heap_sampler import HeapSampler
from .supervising.line_writer import LineWriter
from .supervising.pulse import Pulse
from .supervising.secret_requests import RequestedSecrets, obey
from .supervising.spare import wait_for_a_slot
from .supervising.supervision import LEFT_AT_WORK, SPARE
from .supervising.usage_attribution import Rates
from .transport.state_transport import StateTransport

REPORT_MS = 1_000
SWEEP_MS = 300_000
GRACE_S = 3_600  # a removed fragment's checkpoint is kept for a plan that is rolled back


class SlotLoop:
    """One slot process: a loop that decides, an executor that does, a report that tells."""

    def __init__(
        self, settings: Settings, slot: str, *, tell: LineWriter, session: SparkSession | None = None,
        looking: Looking = NewestDesired,
    ) -> None:
        self._settings, self._spark, self._name, self._tell = settings, session, slot, tell
        self._node_store = NodeStore(settings.data_dir, settings.node)
        self._store = SlotStore(settings.data_dir, self._node_store.slot_dir(slot))
        self._broker = connect(settings.redis_url)
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._newest = looking(self._node_store)
        self._view = DesiredView(self._newest, cycle_ms=round(settings.worker_cycle_s * 1000))
        self._desired, self._patience = DesiredState(), Patience()
        self._stages: dict[str, HandoverStage] = {}  # of the fragments that hand over
        self._transport = StateTransport(
            self._broker, self._store, clock_ms=_now_ms, keeps_stores=not settings.spark_master)
        self._copies = QueryCopies(self._broker, self._store, self._node_store, settings, slot=slot, clock_ms=_now_ms)
        self._left_ids: frozenset[str] = frozenset()  # bundles that were leaving and have left
        self._ended_runs, self._due_ms, self._events = set[str](), dict[str, int](), list[dict[str, Any]]()
        self._reported, self._throttled = None, dict[str, str]()  # by fragment, the full channel that it waits for
        self._long_batches, self._rates, self._heap, self._log = LongBatches(), Rates(), HeapSampler(), logger()
        self._state_sizes = StateSizes(self._store.state_bytes)
        self._listener = QueryListener(self._on_end, lambda name: self._copies.is_awaited(name) and self._wake.set())
        self._hanging_watch = HangingWatch(self._broker, self._listener)
        self._host: Host | None = None  # of trials, once the driver is there
        self._trials = ThreadPoolExecutor(1, thread_name_prefix="trials")
        self._runs = {name: FragmentRun(name, now_ms=_now_ms()) for name in self._store.records()}
        self._leftovers = Leftovers(lambda: queries.left_at_work(self._spark))
        self._suspects = Suspects(self._node_store, self._store, slot)

    def stop(self) -> None:
        """Drain and end."""
        self._stopping.set()
        self._wake.set()

    def poke(self) -> None:
        """Look at the desired state now."""
        self._view.notice()
        self._wake.set()

    def try_out(self, command: Mapping[str, Any]) -> None:
        """Perform a command of a trial and answer it, after those that came before."""
        self._trials.submit(self._try_out, command)

    def run(self) -> int:
        """Serve until stopped; the process's exit code."""
        self._desired = self._view.at(_now_ms())
        self._say("starting")
        config, is_spare = ChannelConfig.of(self._settings), self._spark is not None
        if self._spark is None:
            began_s = time.monotonic()
            self._spark = open_session(
                self._settings, slot=int(self._name), slot_dir=self._store.folder, channel_conf=spark_conf(config))
            self._log.info("session open", took_ms=round(1000 * (time.monotonic() - began_s)))
        pulse = Pulse.of_driver(self._spark, self._tell)
        pulse.start()
        self._listener.attach(self._spark)
        channels = Channels(self._broker)
        self._executor = FragmentExecutor(
            SlotContext(
                engine=SparkEngine(self._spark, channels, config, task_types(), self._store), channels=channels,
                broker=self._broker, store=self._store, task_types=task_types(), desired=self._newest,
            ),
            clock_ms=_now_ms, on_event=self._on_event,
        )
        self._host = Host(TrialContext(
            spark=self._spark, channels=Channels(self._broker), broker=self._broker, config=config,
            listener=self._listener, task_types=task_types(), data_dir=self._settings.data_dir,
            trigger_ms=self._settings.trigger_ms,
        ))
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="executor") as pool:
            threading.Thread(target=self._warm_up, args=(is_spare,), daemon=True).start()
            while not self._stopping.is_set():
                if (status := end_in_turn(self._spark, self._settings, lambda: self._turn(pool))) is not None:
                    self._log.error("the driver is gone", status=status)
                    return status
                if leftover_tasks := self._leftovers.lasting(now_ms=_now_ms()):
                    self._log.error("what was stopped still works", tasks=leftover_tasks)
                    pulse.stop()
                    self._drain(pool, is_stuck=True)
                    return LEFT_AT_WORK
                self._wake.wait(self._rest_s())
                self._wake.clear()
            pulse.stop()
            self._drain(pool)
        return 0

    def _try_out(self, command: Mapping[str, Any]) -> None:
        if self._host is None:
            answer = {"ok": False, "code": "slot_not_ready", "message": "The slot's driver is still starting.",
                      "remedy": "Try again in a minute."}
        else:
            answer = self._host.perform(command)
        self._tell({"answer": command["ask"], **answer})

    def _warm_up(self, is_warm: bool) -> None:
        try:  # what starts beside the slot goes first, and fragments warm the driver themselves
            if not (is_warm or self._stopping.wait(REST_S) or self._host.is_used or self._desired.of_slot(self._name)):
                warm_up(self._spark, self._store.folder / "scratch")
        except Exception as error:  # it would only have been faster
            self._log.warning("warming up failed", exc_info=error)

    # -- one turn of the loop ------------------------------------------------------------------------------------

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        self._desired = self._view.at(now_ms := _now_ms())
        self._notice_ends(now_ms)
        self._look_who_is_to_be_tried_again(now_ms)
        self._look_who_waited_for_an_end()
        fragments = {fragment.id: fragment for fragment in self._desired.of_slot(self._name)}
        self._suspects.look(self._runs, fragments, now_ms=now_ms, give_up=self._executor.give_up)
        actual = {run.id: run.actual() for run in list(self._runs.values())}
        self._stages = self._look_at_stages()
        self._left_ids = self._look_who_left()
        here = self._desired.handing_over.get(self._name, ())
        actions = reconcile(
            self._desired.of_slot(self._name), actual, now_ms, elsewhere=self._desired.elsewhere(self._name),
            outgoing=[(fragment, self._stages[fragment.id]) for fragment in here if fragment.id in self._stages],
            staying=frozenset(self._desired.outgoing), resting=self._store.having("paused"), left_ids=self._left_ids,
            saving=(*unsaved(self._store.files, fragments.values()),
                    *not_given(self._desired, fragments.values(), self._store)))
        actions += self._copies.turn(self._desired, actual, {action.fragment_id for action in actions})
        actions = in_turn(actions, self._desired.of_slot(self._name), actual, coming=lambda: in_first_batch(
            list(self._runs.values()), self._listener.progress, now_ms=now_ms))
        todo: dict[str, list[Action]] = {}
        for action in actions:
            todo.setdefault(action.fragment_id, []).append(action)
        for fragment_id, fragment_actions in todo.items():
            run = self._runs.setdefault(fragment_id, FragmentRun(fragment_id, now_ms=now_ms))
            run.begin(None, now_ms=now_ms)
            pool.submit(self._perform, run, self._desired, fragment_actions)
        self._say("running")
        self._heap.look(self._spark, pool, frozenset(actual), now_ms=now_ms)
        if self._is_due("sweep", SWEEP_MS, now_ms):
            pool.submit(self._store.sweep, now_s=time.time(), grace_s=GRACE_S)

    def _look_at_stages(self) -> dict[str, HandoverStage]:
        elsewhere = self._transport.turn(self._desired, self._name)
        return stages_of(self._desired, self._store, elsewhere, self._patience, runs=self._runs, now_ms=_now_ms())

    def _look_who_waited_for_an_end(self) -> None:
        due = heirs_due(self._desired, self._store.having("ended")) if self._stages else frozenset()
        for run in (run for run in list(self._runs.values()) if run.id in due and run.standby is not None):
            run.looks_now()

    def _rest_s(self) -> float:
        standing = [run.standby for run in list(self._runs.values()) if run.standby is not None]
        is_sending = self._transport.is_busy or any(standby.whole.key_ranges for standby in standing) or (
            keys_change_hands(self._desired, self._name, self._store, self._runs))
        return rest_s(self._desired, self._stages, has_standby=bool(standing), is_sending=is_sending)

    def _look_who_left(self) -> frozenset[str]:
        leaving = {fragment.id for fragment in self._desired.of_slot(self._name) if fragment.leaving}
        left_ids = self._store.having("left") & leaving if leaving else frozenset()
        for fragment_id in left_ids - self._runs.keys():
            self._runs[fragment_id] = FragmentRun(fragment_id, now_ms=_now_ms())
        return left_ids

    def _perform(self, run: FragmentRun, desired: DesiredState, actions: list[Action]) -> None:
        try:
            self._leftovers.expect(now_ms=_now_ms())  # most of them stop a query
            if self._executor.perform(run, desired, actions):
                self._runs.pop(run.id, None)
        except Exception as error:  # a fragment must not stay busy in silence
            self._log.error("performing failed", fragment=run.id, exc_info=error)
        self._wake.set()

    def _notice_ends(self, now_ms: int) -> None:
        """Note queries that ended without being asked to: they have failed, and their pages show the cause.

        An unwanted query may end because its input is gone: it is about to be stopped anyway.
        """
        fragment_ids = {fragment.id for fragment in self._desired.of_slot(self._name)}
        fragment_ids |= {fragment_id for fragment_id, stage in self._stages.items() if stage in AT_WORK}
        # At every query, in case an end was not told.
        look_at_all = self._is_due("look", LOOK_MS, now_ms) or not self._listener.listening
        if look_at_all:
            self._long_batches.look(batching(list(self._runs.values()), self._listener.progress), now_ms=now_ms)
        if self._is_due("hanging", LOOK_MS, now_ms):
            self._hanging_watch.look(
                self._spark, [run for run in list(self._runs.values()) if run.id in fragment_ids],
                throttled=self._throttled, now_ms=now_ms, on_hang=self._executor.failed)
        ended = {self._ended_runs.pop() for _ in range(len(self._ended_runs))}
        for run in list(self._runs.values()):
            query = run.query
            if query is None or run.id not in fragment_ids or run.state is not FragmentState.RUNNING:
                continue
            if run.actual().busy:  # a change is under way: look again when it is over
                self._ended_runs.update(ended & {run.run_id})
            elif (look_at_all or run.run_id in ended) and not query.isActive:
                self._listener.forget([run.run_id])
                self._leftovers.expect(now_ms=now_ms)
                task_code = task_code_of(run.fragment.tasks, task_types())
                run.query = None
                self._executor.failed(run, explain(queries.causes_of(query), task_code))

    def _look_who_is_to_be_tried_again(self, now_ms: int) -> None:
        """People ask through the broker; nobody is asked for while nothing fails."""
        failed = [run for run in list(self._runs.values()) if run.state is FragmentState.BACKOFF]
        if not failed or not self._is_due("retries", REPORT_MS, now_ms):
            return
        with suppress(redis.RedisError):
            for run in failed:
                if self._broker.getdel(keys.try_again(run.id)):
                    self._suspects.pardon(run.id)
                    run.try_again()

    # -- telling -------------------------------------------------------------------------------------------------

    def _say(self, state: str) -> None:
        """Write the report when a second has passed, or at once when it says something new."""
        now_ms = _now_ms()
        runs = list(self._runs.values())
        shape = (state, self._desired.version, self._left_ids, [(run.id, run.actual(), run.run_id) for run in runs])
        is_old = shape == self._reported and not self._is_due("report", REPORT_MS, now_ms) and not self._events
        if is_old or (self._spark is not None and is_ending(self._spark)):
            return  # what ends with its driver is told as it was before
        self._reported = shape
        if runs:
            self._look_at_meters(runs, now_ms)
        self._due_ms["report"] = now_ms + REPORT_MS
        events, self._events = self._events, []
        self._tell({
            "state": state, "version": self._desired.version,
            "fragments": {run.id: self._report_of(run, now_ms) for run in runs if self._is_told(run)},
            "events": events, "heap_mb": self._heap.heap_mb, "spark_page": driver_page.reported(),
        })

    def _report_of(self, run: FragmentRun, now_ms: int) -> dict[str, Any]:
        query = run.query
        progress = self._listener.progress(query) if query is not None and run.state is FragmentState.RUNNING else None
        progress_facts = {"batch": None, "batch_ms": None, "rows_per_s": 0.0} if progress is None else asdict(progress)
        work = self._listener.work(run.id, query)
        progress_facts |= {
            "batches": work.batches, "busy_ms": work.busy_ms, "rate_per_s": self._rates.per_s(run.id),
            "idle_ms": self._rates.idle_ms(run.id, now_ms=now_ms),
            "state_kb": self._state_sizes.kb(run.id, now_ms=now_ms),
            "batch_for_ms": self._long_batches.for_ms(run.id, now_ms=now_ms)}
        report = run.report(
            progress_facts, throttled_by=self._throttled.get(run.id), now_ms=now_ms,
            is_behind=self._hanging_watch.is_behind(run.id, now_ms=now_ms))
        return {**report, **self._copies.facts_of(run.id), **({"state": "left"} if run.id in self._left_ids else {})}

    def _look_at_meters(self, runs: list[FragmentRun], now_ms: int) -> None:
        meters = read_meters(self._broker, [run for run in runs if run.state is FragmentState.RUNNING])
        self._throttled = {name: meter.throttled_by for name, meter in meters.items() if meter.throttled_by}
        events = {name: meter.events for name, meter in meters.items()}
        self._rates.take(events, held_back=self._throttled, at_ms=now_ms)

    def _is_told(self, run: FragmentRun) -> bool:
        """A fragment that is stopped for good is gone, though some of what it left may still be cleared away."""
        if run.state is not FragmentState.STOPPED or self._stages.get(run.id) in AT_WORK:
            return True
        return any(fragment.id == run.id for fragment in self._desired.of_slot(self._name))

    def _on_end(self, run_id: str) -> None:
        self._ended_runs.add(run_id)
        self._wake.set()

    def _on_event(self, kind: str, **facts: Any) -> None:
        self._events.append({"kind": kind, "slot": self._name, **facts})

    def _is_due(self, chore: str, every_ms: int, now_ms: int) -> bool:
        if now_ms < self._due_ms.get(chore, 0):
            return False
        self._due_ms[chore] = now_ms + every_ms
        return True

    # -- the end -------------------------------------------------------------------------------------------------

    def _drain(self, pool: ThreadPoolExecutor, *, is_stuck: bool = False) -> None:
        """Stop all queries between two batches; everything resumes from its checkpoint the next time. A driver that is
        stuck in a task ends with its process."""
        running = [run for run in self._runs.values() if run.query is not None]
        for run in running:
            pool.submit(self._executor.drain, run)
        pool.shutdown(wait=True)
        if not is_stuck:
            self._spark.stop()
        self._log.info("slot ended", drained=len(running))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(looking: Looking = NewestDesired) -> None:
    """Run one slot; ``looking`` is how it observes the desired state."""
    parser = argparse.ArgumentParser(description="Run one slot; the node agent does this.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--slot", help="the index of the slot")
    which.add_argument("--spare", action="store_true", help="be ready to take the place of a driver that dies")
    options = parser.parse_args()
    name, settings = SPARE if options.spare else options.slot, from_environment()
    # Whatever Spark or a library prints must not end up between the reports.
    tell = LineWriter(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configure(sys.stderr, node=settings.node, slot=name)
    session = None
    if options.spare:
        with refusal_told(tell):
            name, session = wait_for_a_slot(settings, commands=sys.stdin, tell=tell)
        configure(sys.stderr, node=settings.node, slot=name)
    slot = SlotLoop(settings, name, tell=tell, session=session, looking=looking)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: slot.stop())
    requested = RequestedSecrets(tell)
    open_by(requested)
    orders = {"stop": slot.stop, "poke": slot.poke, "try_out": slot.try_out, "secrets": requested}
    threading.Thread(target=obey, args=(sys.stdin,), kwargs=orders, name="commands", daemon=True).start()
    with refusal_told(tell):
        code = slot.run()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # py4j's threads and connections have nothing left to say


if __name__ == "__main__":
    main()
