"""The hands of a slot: they perform the actions that reconciliation decides, on Spark and on the broker.

What they must keep to, so that no event is lost: a fragment's channels are open and its readers registered before its
query starts; a new fragment publishes from its first batch (``from`` preset to 0), a running one from the next batch
boundary that its valve sets; a reader starts only where its place in every channel is registered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from scheduler.model.task_types import TaskTypes
from workers.channels import keys
from workers.channels.config import CAPACITY_BLOCKS, KEEP_EVENTS, ChannelConfig
from workers.channels.registry import Channels
from workers.spark import queries
from workers.spark.compile import Chain, Compiled, compile_chain, output_positions
from workers.spark.failures import FragmentFailed, explain_error
from workers.spark.files import clear_uncommitted

from .live import Live
from .logs import logger
from .reconcile import (
    Action,
    CloseOutlet,
    CloseTail,
    OpenOutlet,
    OpenTail,
    RegisterReaders,
    Start,
    State,
    Stop,
    UnregisterReaders,
)
from .store import FileLock, SlotStore
from .wanted import WantedFragment

LOOK_AGAIN_MS = 250  # for the stream that a fragment waits for
HINDERED_MS = 1_000
FILES_EVERY_MS = 5_000
METERS_KEPT_S = 60
OUTPUTS_KEPT_S = 24 * 3600  # what a removed dataflow delivered stays browsable


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What hands work with, the same for every fragment of a slot."""

    spark: Any
    channels: Channels
    broker: redis.Redis
    channel_config: ChannelConfig
    store: SlotStore
    task_types: TaskTypes


class Hands:
    """Performs actions, each fragment's in order; different fragments on different threads."""

    def __init__(
        self,
        around: Surroundings,
        *,
        clock_ms: Callable[[], int],
        on_event: Callable[..., None],
        is_wanted_task: Callable[[str], bool],
    ) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._on_event = on_event
        self._is_wanted_task = is_wanted_task
        self._locks: dict[str, FileLock] = {}
        self._log = logger()

    def perform(self, live: Live, actions: Sequence[Action]) -> bool:
        """Perform a fragment's actions in order. True where the fragment is gone from this slot afterwards.

        The first action that fails ends the sequence: reconciliation decides what is left anew.
        """
        try:
            for action in actions:
                match action:
                    case Start(fragment):
                        self._start(live, fragment)
                    case Stop(_, keep):
                        return self._stop(live, keep=keep)
                    case _:
                        self._change(live, action)
        except Exception as error:
            self._hindered(live, error)
        finally:
            live.end()
        return False

    # -- start ---------------------------------------------------------------------------------------------------

    def _start(self, live: Live, wanted: WantedFragment) -> None:
        around = self._around
        began_s = time.monotonic()
        if live.query is not None:  # an earlier stop did not come to its end
            live.query.stop()
            live.query = None
        lock = self._locks.setdefault(wanted.id, around.store.lock(wanted.id))
        if not lock.acquire() or not self._inputs_are_ready(wanted):
            now_ms = self._clock_ms()
            live.waits(retry_at_ms=now_ms + LOOK_AGAIN_MS, now_ms=now_ms)
            return
        live.begin(State.STARTING, now_ms=self._clock_ms())
        whole = self._whole(wanted)
        has_begun = around.store.has_begun(wanted.id)
        around.store.record(whole)
        compiled = compile_chain(
            around.spark, Chain(whole.id, whole.tasks, [item.channel for item in whole.inputs]),
            config=around.channel_config, task_types=around.task_types, take_fence=around.channels.take_fence,
            folder=around.store.data_dir,
        )
        live.tasks, live.schemas = whole.tasks, compiled.schemas
        self._prepare_channels(whole, compiled, has_begun=has_begun)
        trigger_ms = wanted.trigger_ms
        if compiled.file_sink is not None:
            clear_uncommitted(compiled.file_sink.path)
            if len(whole.tasks) == 1:  # nobody waits for files, and each batch makes one
                trigger_ms = max(trigger_ms, FILES_EVERY_MS)
        query = queries.start(
            compiled.frame, name=wanted.id, checkpoint=around.store.checkpoint(wanted.id), trigger_ms=trigger_ms,
            file_sink=compiled.file_sink,
        )
        live.runs(query, query.runId, outlets=wanted.outlets, active=wanted.active, now_ms=self._clock_ms())
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment started", fragment=wanted.id, resumed=has_begun, took_ms=took_ms)

    def _inputs_are_ready(self, wanted: WantedFragment) -> bool:
        infos = [self._around.channels.info(item.channel) for item in wanted.inputs]
        return all(info is not None and info.schema_json and wanted.id in info.readers for info in infos)

    def _whole(self, wanted: WantedFragment) -> WantedFragment:
        """The fragment with its whole chain: a tail that was closed long ago still belongs to its checkpoint.

        A checkpoint of another fragment that once had this id (of an estate that began anew) is nothing to go on from.
        """
        known = self._around.store.known(wanted.id)
        if known is None:
            return wanted
        shared = min(len(known.tasks), len(wanted.tasks))
        if known.inputs != wanted.inputs or known.tasks[:shared] != wanted.tasks[:shared]:
            self._log.warning("another fragment had this id; its checkpoint goes", fragment=wanted.id)
            self._around.store.remove_checkpoint(wanted.id)
            return wanted
        return replace(wanted, tasks=max(known.tasks, wanted.tasks, key=len))

    def _prepare_channels(self, whole: WantedFragment, compiled: Compiled, *, has_begun: bool) -> None:
        """Bring channels and valves to what is wanted, whatever an earlier life of the fragment left there."""
        channels = self._around.channels
        first_batch = None if has_begun else 0
        outputs = output_positions(whole.tasks, self._around.task_types)
        for task, schema in zip(whole.tasks, compiled.schemas, strict=True):
            self._around.broker.set(keys.schema(task.id), schema)
        for position in range(len(whole.tasks)):
            readers = whole.outlets.get(position, frozenset())
            if not readers and position not in outputs:
                unread = channels.info(whole.channel(position))
                if unread is not None:
                    self._close_outlet(whole.id, position, unread.readers)
                continue
            self._open_channel(whole, position, compiled.schemas[position], readers)
            if position not in outputs:  # who reads an output is not the engine's business
                for reader in channels.info(whole.channel(position)).readers.keys() - readers:
                    channels.unregister(whole.channel(position), reader)
            channels.open_outlet(whole.id, position, from_batch=first_batch)
        self._set_active(whole.id, whole.active, of=len(whole.tasks))
        self._around.broker.persist(keys.meter(whole.id))
        channels.resume(whole.id)

    def _open_channel(self, fragment: WantedFragment, position: int, schema: str, readers: Iterable[str]) -> None:
        channel = fragment.channel(position)
        task = fragment.tasks[position]
        is_output = position in output_positions(fragment.tasks, self._around.task_types)
        keep_events = int(task.config.get("keep_events", KEEP_EVENTS)) if is_output else 0
        for key in _channel_keys(channel):  # an output that was left to expire may be written again
            self._around.broker.persist(key)
        self._around.channels.open_channel(
            channel, schema_json=schema, capacity=CAPACITY_BLOCKS, retain=keep_events,
            readers=readers,
        )

    # -- changes while the query runs ----------------------------------------------------------------------------

    def _change(self, live: Live, action: Action) -> None:
        channels = self._around.channels
        outlets = {position: set(readers) for position, readers in live.outlets.items()}
        match action:
            case OpenOutlet(fragment_id, position, readers):
                fragment = WantedFragment(id=fragment_id, tasks=live.tasks)
                self._open_channel(fragment, position, live.schemas[position], readers)
                channels.open_outlet(fragment_id, position)
                outlets[position] = set(readers)
            case RegisterReaders(fragment_id, position, readers):
                channels.register_readers(f"{fragment_id}.{position}", readers)
                outlets[position] |= readers
            case UnregisterReaders(fragment_id, position, readers):
                for reader in readers:
                    channels.unregister(f"{fragment_id}.{position}", reader)
                outlets[position] -= readers
            case CloseOutlet(fragment_id, position, readers):
                self._close_outlet(fragment_id, position, readers)
                outlets[position] = set()
            case CloseTail(fragment_id, active) | OpenTail(fragment_id, active):
                self._set_active(fragment_id, active, of=len(live.tasks))
                live.changed(active=active)
                return
        live.changed(outlets={position: frozenset(readers) for position, readers in outlets.items()})

    def _close_outlet(self, fragment_id: str, position: int, readers: Iterable[str]) -> None:
        self._around.channels.close_outlet(fragment_id, position)
        for reader in readers:
            self._around.channels.unregister(f"{fragment_id}.{position}", reader)

    def _set_active(self, fragment_id: str, active: int, *, of: int) -> None:
        if active < of:
            self._around.channels.close_tail(fragment_id, active - 1)
        else:
            self._around.channels.open_tail(fragment_id)

    # -- stop ----------------------------------------------------------------------------------------------------

    def _stop(self, live: Live, *, keep: bool) -> bool:
        if live.query is not None:
            drained = queries.stop(live.query, pause=lambda: self.pause(live.id))
            live.query = None
            self._log.info("fragment stopped", fragment=live.id, drained=drained, kept=keep)
        live.stopped(retry_at_ms=self._clock_ms() + HINDERED_MS, now_ms=self._clock_ms())
        if not keep:
            self._remove(live)
        self._around.store.forget(live.id)
        lock = self._locks.pop(live.id, None)
        if lock is not None:
            lock.release()
        return True

    def pause(self, fragment_id: str) -> None:
        """Let the fragment plan no new batch."""
        try:
            self._around.channels.pause(fragment_id)
        except redis.RedisError:
            return  # no broker, no batch that could begin

    def _remove(self, live: Live) -> None:
        """Remove what a fragment that nobody wants left in the broker, and mark its checkpoint for removal.

        The checkpoint stays for a while: a plan that is rolled back starts the fragment again from where it was.
        """
        around = self._around
        fragment = around.store.records().get(live.id)
        outputs = output_positions(fragment.tasks, around.task_types) if fragment else frozenset()
        for position, task in enumerate(fragment.tasks if fragment else ()):
            channel = fragment.channel(position)
            if position in outputs:
                for key in _channel_keys(channel):
                    around.broker.expire(key, OUTPUTS_KEPT_S)
            else:
                around.channels.delete_channel(channel)
            if not self._is_wanted_task(task.id):
                around.broker.delete(keys.schema(task.id))
        around.channels.forget_fragment(live.id)
        # What the JVM counted last arrives within the second: it must find meters that will expire.
        around.broker.hincrby(keys.meter(live.id), "in:n", 0)
        around.broker.expire(keys.meter(live.id), METERS_KEPT_S)
        around.store.mark_removed(live.id)

    # -- what goes wrong -----------------------------------------------------------------------------------------

    def _hindered(self, live: Live, error: Exception) -> None:
        failure = explain_error(error)
        now_ms = self._clock_ms()
        if live.state is State.STARTING:
            self.failed(live, failure)
        elif live.state is State.DRAINING:
            live.stopped(retry_at_ms=now_ms + HINDERED_MS, now_ms=now_ms)
        else:
            live.hindered(str(failure), retry_at_ms=now_ms + HINDERED_MS)
        if not failure.broker_is_away and not isinstance(error, FragmentFailed):
            self._log.warning("action failed", fragment=live.id, exc_info=error)

    def failed(self, live: Live, failure: FragmentFailed) -> None:
        """The fragment's start or its query failed: tell, and let it wait."""
        now_ms = self._clock_ms()
        retry_at_ms = live.failed(str(failure), now_ms=now_ms, broker_is_away=failure.broker_is_away)
        self._log.warning("fragment failed", fragment=live.id, error=str(failure), retry_in_ms=retry_at_ms - now_ms)
        self._on_event("fragment_failed", at_ms=now_ms, fragment=live.id, error=str(failure), retry_at_ms=retry_at_ms)


def _channel_keys(channel: str) -> tuple[str, str, str]:
    return keys.channel(channel), keys.meta(channel), keys.readers(channel)
