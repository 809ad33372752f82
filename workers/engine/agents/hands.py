"""The hands of a slot: they perform the actions that reconciliation decides, on Spark and on the broker.

What they must keep to, so that no event is lost: a fragment's channels are open and its readers registered before its
query starts; a new fragment publishes from its first batch (``from`` preset to 0), a running one from the next batch
boundary that its valve sets; a reader starts only where its place in every channel is registered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from scheduler.contracts.desired import DesiredState, Input, WantedFragment
from scheduler.model.task_types import TaskTypes
from workers.engine.channels import keys
from workers.engine.channels.config import ChannelConfig
from workers.engine.channels.registry import Channels
from workers.engine.spark import queries
from workers.engine.spark.compile import Beginning, Chain, compile_chain, output_positions
from workers.engine.spark.failures import FragmentFailed, explain_error
from workers.engine.spark.files import clear_uncommitted

from .departure import Departure
from .doors import LOOK_AGAIN_MS, PARTS_KEPT_S, SETTLE_MS, Doors, channel_keys
from .handover import line
from .inlets import Inlets
from .live import Live
from .logs import logger
from .reconcile import (
    Action,
    End,
    Leave,
    Pause,
    Restart,
    Route,
    Settle,
    Start,
    State,
    Stop,
)
from .routing import Routing
from .store import FileLock, SlotStore
from .succession import Succession

SOON_MS = 30  # while a handover is under way, every moment counts
SELDOM_MS = 3_000
LEAVE_MS = 500
HINDERED_MS = 1_000
REPEAT_MS = 20_000  # for a first batch on a busy machine
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
    desired: Callable[[], DesiredState]  # the node's newest


class Hands:
    """Performs actions, each fragment's in order; different fragments on different threads."""

    def __init__(
        self,
        around: Surroundings,
        *,
        clock_ms: Callable[[], int],
        on_event: Callable[..., None],
    ) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._on_event = on_event
        self._locks: dict[str, FileLock] = {}
        self._doors = Doors(around, clock_ms=clock_ms, on_event=on_event)
        self._routing = Routing(around, self._doors, clock_ms=clock_ms)
        self._succession = Succession(around, clock_ms=clock_ms)
        self._inlets = Inlets(around)
        self._departure = Departure(around, self._inlets)
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
                    case Restart(fragment):
                        self._restart(live, fragment)
                    case Settle():
                        self._routing.settle(live)
                    case Leave(fragment):
                        self._leave(live, fragment)
                    case Stop(_, keep):
                        return self._stop(live, keep=keep)
                    case End(fragment):
                        self._end(live, fragment)
                    case Pause(fragment):
                        self._pause(live, fragment)
                    case Route():
                        self._routing.divide(live, action)
                    case _:
                        self._doors.change(live, action)
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
        inputs = self._inlets.now(wanted) if lock.acquire() and self._may_begin(wanted) else None
        if inputs is None:
            now_ms = self._clock_ms()
            again_ms = SOON_MS if wanted.inherits else LOOK_AGAIN_MS
            live.waits(retry_at_ms=now_ms + again_ms, now_ms=now_ms)
            return
        live.begin(State.STARTING, now_ms=self._clock_ms())
        self._departure.comes_back(wanted.id)
        was_let_go = self._succession.was_let_go(wanted)
        if was_let_go or wanted.id in around.store.having("paused"):
            self._succession.go_on(wanted)
        if was_let_go:
            self._log.warning("it was paused meanwhile, unheard of here; it reads from now on", fragment=wanted.id)
        whole = self._whole(wanted, inputs)
        has_begun = around.store.has_begun(wanted.id)
        around.store.record(whole)
        compiled = compile_chain(
            around.spark,
            Chain(
                whole.id, whole.tasks, whole.streams, whole.written, beginning=self._beginning(whole.id),
                threads=whole.threads,
            ),
            config=around.channel_config, task_types=around.task_types, take_fence=around.channels.take_fence,
            folder=around.store.data_dir,
        )
        around.store.record_folds(whole.id, compiled.folds)
        live.fragment, live.schemas = whole, compiled.schemas
        outlets, routes = self._doors.prepare(whole, compiled.schemas, has_begun=has_begun)
        trigger_ms = wanted.trigger_ms
        if compiled.file_sink is not None:
            clear_uncommitted(compiled.file_sink.path)
            if len(whole.tasks) == 1:  # nobody waits for files, and each batch makes one
                trigger_ms = max(trigger_ms, FILES_EVERY_MS)
        query = queries.start(
            compiled.frame, name=wanted.id, checkpoint=around.store.checkpoint(wanted.id), trigger_ms=trigger_ms,
            file_sink=compiled.file_sink,
        )
        live.runs(
            query, query.runId, outlets=outlets, routes=routes, active=wanted.active,
            now_ms=self._clock_ms(), settle_at_ms=self._clock_ms() + SETTLE_MS if routes else None,
        )
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment started", fragment=wanted.id, resumed=has_begun, took_ms=took_ms)

    def _may_begin(self, wanted: WantedFragment) -> bool:
        store = self._around.store
        if wanted.id in store.having("ended") and wanted.id in self._around.desired().wanted:
            store.record_ended(wanted.id, None)  # it is wanted again before anybody went on with its work
        if wanted.id in store.having("paused"):
            self._succession.come_back(wanted)
        return self._succession.may_begin(wanted)

    def _beginning(self, fragment_id: str) -> Beginning:
        store = self._around.store
        begun = store.begun(fragment_id)
        if begun is None:
            return Beginning()
        states = store.begun_path(fragment_id) if begun.states else None
        return Beginning(
            source_offset=begun.source_offset, offsets=begun.offsets, batch_bases=begun.batch_bases, states=states)

    def _whole(self, wanted: WantedFragment, inputs: tuple[Input, ...]) -> WantedFragment:
        """The fragment with what it reads now, and its whole chain: a tail that was closed long ago still belongs to
        its checkpoint.

        A checkpoint of another fragment that once had this id (of an estate that began anew) is nothing to go on from.
        """
        wanted = replace(wanted, inputs=inputs)
        known = self._around.store.known(wanted.id)
        if known is None:
            return wanted
        shared = min(len(known.tasks), len(wanted.tasks))
        parents, known_parents = ([item.task for item in one.inputs] for one in (wanted, known))
        if set(known_parents) != set(parents) or known.tasks[:shared] != wanted.tasks[:shared]:
            self._log.warning("another fragment had this id; its checkpoint goes", fragment=wanted.id)
            self._around.store.remove_checkpoint(wanted.id)
            return wanted
        return replace(wanted, tasks=max(known.tasks, wanted.tasks, key=len))

    def _restart(self, live: Live, wanted: WantedFragment) -> None:
        """Go on with other inputs or threads, from the checkpoint; not before that is possible at once."""
        inputs = self._inlets.now(wanted, between_batches=True)
        runs = live.fragment
        if inputs is None or (set(inputs) == set(runs.inputs) and wanted.threads == runs.threads):
            missing = set(wanted.inputs) - set(inputs or ())
            seldom = inputs is not None and all(item.ending for item in missing)  # they may never come
            live.looks_again(at_ms=self._clock_ms() + (SELDOM_MS if seldom else LOOK_AGAIN_MS))
            return
        self._come_to_rest(live)
        self._start(live, wanted)

    # -- come to rest --------------------------------------------------------------------------------------------

    def _end(self, live: Live, fragment: WantedFragment) -> None:
        """Bring a fragment to its end for others, or a step nearer to it."""
        if self._rests(live, fragment, is_drained=self._succession.is_drained):
            self._succession.end(fragment)
            self._let_go(live)

    def _pause(self, live: Live, fragment: WantedFragment) -> None:
        if self._rests(live, fragment, is_drained=lambda _: True):
            self._succession.rest(fragment)
            self._let_go(live)

    def _rests(
        self, live: Live, fragment: WantedFragment, *, is_drained: Callable[[WantedFragment], bool],
        again_ms: int = SOON_MS,
    ) -> bool:
        """Whether nothing is under way in a fragment and nothing left to read; if it can be, it is stopped for that.

        A batch that was planned and not done is repeated first, for what it read may be freed later.
        """
        now_ms = self._clock_ms()
        # What is to end before it began has nothing to leave until it has taken over itself.
        drained = self._succession.may_begin(fragment) and is_drained(fragment)
        if live.query is not None:
            # One that has just been started repeats a batch: stopped in the middle of it, it would have to again.
            repeats = now_ms - live.since_ms < REPEAT_MS and not self._around.store.progress(fragment.id).is_done
            if not drained or repeats:
                live.looks_again(at_ms=now_ms + again_ms)
                return False
            self._come_to_rest(live)
        if drained and self._around.store.progress(fragment.id).is_done:
            if live.state is not State.STOPPED:  # it waited, or had failed
                live.begin(State.DRAINING, now_ms=now_ms)
                live.stopped(retry_at_ms=None, now_ms=now_ms)
            return True
        if live.state is not State.WAITING:
            live.begin(State.STARTING, now_ms=now_ms)
        self._start(live, fragment)
        return False

    def _come_to_rest(self, live: Live) -> None:
        live.begin(State.DRAINING, now_ms=self._clock_ms())
        queries.stop(live.query, pause=lambda: self.pause(live.id))
        live.query = None
        live.stopped(retry_at_ms=None, now_ms=self._clock_ms())

    def _leave(self, live: Live, fragment: WantedFragment) -> None:
        """Bring a bundle that gets nothing more to its end, or a step nearer to it."""
        if not self._rests(live, fragment, is_drained=self._departure.is_drained, again_ms=LEAVE_MS):
            return
        self._around.store.take_on(self._around.store.known(fragment.id) or fragment)
        self._departure.stops(fragment)
        if self._departure.is_read(fragment):
            self._around.store.record_left(fragment.id, left=True)
            self._let_go(live)
            self._log.info("bundle left", fragment=fragment.id)
        else:
            live.looks_again(at_ms=self._clock_ms() + LOOK_AGAIN_MS)

    def _let_go(self, live: Live) -> None:
        lock = self._locks.pop(live.id, None)
        if lock is not None:
            lock.release()

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
        self._let_go(live)
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
        desired = around.desired()
        fragment = around.store.records().get(live.id) or desired.ceding.get(live.id)
        outputs = output_positions(fragment.tasks, around.task_types) if fragment else frozenset()
        # By whoever has not heard yet that it is gone, or that the one is which went on writing there.
        is_read_still = live.id in desired.ceding or live.id in around.store.having("left")
        # Those whose work it went on with ended before it began.
        over = line(desired, fragment.inherits if fragment else ()) | {live.id}
        others = (other for other in (*desired.wanted.values(), *desired.ceding.values()) if other.id not in over)
        taken_over = {channel: other for other in others for channel in other.written}
        if live.id in desired.ceding:
            self._succession.leave_channels(fragment, for_good=True)
        for position in range(len(fragment.tasks) if fragment else 0):
            channel = fragment.channel(position)
            if channel in taken_over:
                continue
            if position in outputs:
                self._leave_behind(channel, OUTPUTS_KEPT_S)
            elif is_read_still:
                self._leave_behind(channel, PARTS_KEPT_S)
            else:
                around.channels.delete_channel(channel)
        for part in self._doors.parts_of(fragment).values() if fragment else ():
            heir = taken_over.get(keys.whole_of(part))
            if heir is None:
                self._leave_behind(part, PARTS_KEPT_S)
            else:
                self._doors.pass_on(part, heir)
        around.channels.forget_fragment(live.id)
        # What the JVM counted last arrives within the second: it must find meters that will expire.
        around.broker.hincrby(keys.meter(live.id), "in:n", 0)
        around.broker.expire(keys.meter(live.id), METERS_KEPT_S)
        around.store.mark_removed(live.id)
        around.store.record_ended(live.id, None)  # at last: what is still to be cleared away has it

    def _leave_behind(self, channel: str, kept_s: int) -> None:
        for key in channel_keys(channel):
            self._around.broker.expire(key, kept_s)

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

