"""The executor of a slot: they perform the actions that reconciliation decides, on Spark and on the broker.

What they must keep to, so that no event is lost: a fragment's channels are open and its readers registered before its
query starts; a new fragment publishes from its first batch (``from`` preset to 0), a running one from the next batch
boundary that its valve sets; a reader starts only where its place in every channel is registered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import redis

from scheduler.contracts.desired import Input, WantedFragment
from workers.engine.channels import keys
from workers.engine.spark import queries
from workers.engine.spark.compile import Beginning, Chain, compile_chain, output_positions
from workers.engine.spark.failures import FragmentFailed, explain_error
from workers.engine.spark.files import clear_uncommitted

from .context import SlotContext
from .fragment_run import FragmentRun
from .handover import line
from .inputs import InputChannels
from .logs import logger
from .outputs import ACTIVATE_AFTER_MS, PARTS_KEPT_S, RETRY_MS, OutputChannels, channel_keys
from .reconcile import (
    Action,
    ActivateRoutes,
    End,
    Leave,
    Pause,
    Restart,
    Route,
    Start,
    State,
    Stop,
)
from .retirement import Retirement
from .route_activation import RouteActivation
from .savepoints import Savepoints
from .store import FileLock

SOON_MS = 30  # while a handover is under way, every moment counts
SELDOM_MS = 3_000
LEAVE_MS = 500
FAILED_ACTION_MS = 1_000
REPEAT_MS = 20_000  # for a first batch on a busy machine
FILES_EVERY_MS = 5_000
METERS_KEPT_S = 60
OUTPUTS_KEPT_S = 24 * 3600  # what a removed dataflow delivered stays browsable


class FragmentExecutor:
    """Performs actions, each fragment's in order; different fragments on different threads."""

    def __init__(
        self,
        around: SlotContext,
        *,
        clock_ms: Callable[[], int],
        on_event: Callable[..., None],
    ) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._on_event = on_event
        self._locks: dict[str, FileLock] = {}
        self._outputs = OutputChannels(around, clock_ms=clock_ms, on_event=on_event)
        self._routing = RouteActivation(around, self._outputs, clock_ms=clock_ms)
        self._savepoints = Savepoints(around, clock_ms=clock_ms)
        self._inputs = InputChannels(around)
        self._retirement = Retirement(around, self._inputs)
        self._log = logger()

    def perform(self, live: FragmentRun, actions: Sequence[Action]) -> bool:
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
                    case ActivateRoutes():
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
                        self._outputs.change(live, action)
        except Exception as error:
            self._action_failed(live, error)
        finally:
            live.end()
        return False

    # -- start ---------------------------------------------------------------------------------------------------

    def _start(self, live: FragmentRun, wanted: WantedFragment) -> None:
        around = self._around
        began_s = time.monotonic()
        if live.query is not None:  # an earlier stop did not come to its end
            live.query.stop()
            live.query = None
        lock = self._locks.setdefault(wanted.id, around.store.lock(wanted.id))
        inputs = self._inputs.now(wanted) if lock.acquire() and self._may_begin(wanted) else None
        if inputs is None:
            now_ms = self._clock_ms()
            again_ms = SOON_MS if wanted.inherits else RETRY_MS
            live.waits(retry_at_ms=now_ms + again_ms, now_ms=now_ms)
            return
        live.begin(State.STARTING, now_ms=self._clock_ms())
        self._retirement.comes_back(wanted.id)
        was_unregistered = self._savepoints.was_unregistered(wanted)
        if was_unregistered or wanted.id in around.store.having("paused"):
            self._savepoints.go_on(wanted)
        if was_unregistered:
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
        outlets, routes = self._outputs.prepare(whole, compiled.schemas, has_begun=has_begun)
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
            now_ms=self._clock_ms(), activate_at_ms=self._clock_ms() + ACTIVATE_AFTER_MS if routes else None,
        )
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment started", fragment=wanted.id, resumed=has_begun, took_ms=took_ms)

    def _may_begin(self, wanted: WantedFragment) -> bool:
        store = self._around.store
        if wanted.id in store.having("ended") and wanted.id in self._around.desired().wanted:
            store.record_ended(wanted.id, None)  # it is wanted again before anybody went on with its work
        if wanted.id in store.having("paused"):
            self._savepoints.come_back_from_pause(wanted)
        return self._savepoints.may_begin(wanted)

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

    def _restart(self, live: FragmentRun, wanted: WantedFragment) -> None:
        """Go on with other inputs or threads, from the checkpoint; not before that is possible at once."""
        inputs = self._inputs.now(wanted, between_batches=True)
        runs = live.fragment
        if inputs is None or (set(inputs) == set(runs.inputs) and wanted.threads == runs.threads):
            missing = set(wanted.inputs) - set(inputs or ())
            seldom = inputs is not None and all(item.ending for item in missing)  # they may never come
            live.retries(at_ms=self._clock_ms() + (SELDOM_MS if seldom else RETRY_MS))
            return
        self._come_to_rest(live)
        self._start(live, wanted)

    # -- come to rest --------------------------------------------------------------------------------------------

    def _end(self, live: FragmentRun, fragment: WantedFragment) -> None:
        """Bring a fragment to its end for others, or a step nearer to it."""
        if self._rests(live, fragment, is_drained=self._savepoints.is_drained):
            self._savepoints.end(fragment)
            self._release(live)

    def _pause(self, live: FragmentRun, fragment: WantedFragment) -> None:
        if self._rests(live, fragment, is_drained=lambda _: True):
            self._savepoints.rest(fragment)
            self._release(live)

    def _rests(
        self, live: FragmentRun, fragment: WantedFragment, *, is_drained: Callable[[WantedFragment], bool],
        again_ms: int = SOON_MS,
    ) -> bool:
        """Whether nothing is under way in a fragment and nothing left to read; if it can be, it is stopped for that.

        A batch that was planned and not done is repeated first, for what it read may be freed later.
        """
        now_ms = self._clock_ms()
        # What is to end before it began has nothing to leave until it has taken over itself.
        drained = self._savepoints.may_begin(fragment) and is_drained(fragment)
        if live.query is not None:
            # One that has just been started repeats a batch: stopped in the middle of it, it would have to again.
            repeats = now_ms - live.since_ms < REPEAT_MS and not self._around.store.progress(fragment.id).is_done
            if not drained or repeats:
                live.retries(at_ms=now_ms + again_ms)
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

    def _come_to_rest(self, live: FragmentRun) -> None:
        live.begin(State.DRAINING, now_ms=self._clock_ms())
        queries.stop(live.query, pause=lambda: self.pause(live.id))
        live.query = None
        live.stopped(retry_at_ms=None, now_ms=self._clock_ms())

    def _leave(self, live: FragmentRun, fragment: WantedFragment) -> None:
        """Bring a bundle that gets nothing more to its end, or a step nearer to it."""
        if not self._rests(live, fragment, is_drained=self._retirement.is_drained, again_ms=LEAVE_MS):
            return
        self._around.store.take_on(self._around.store.known(fragment.id) or fragment)
        self._retirement.stops(fragment)
        if self._retirement.is_read(fragment):
            self._around.store.record_left(fragment.id, left=True)
            self._release(live)
            self._log.info("bundle left", fragment=fragment.id)
        else:
            live.retries(at_ms=self._clock_ms() + RETRY_MS)

    def _release(self, live: FragmentRun) -> None:
        lock = self._locks.pop(live.id, None)
        if lock is not None:
            lock.release()

    # -- stop ----------------------------------------------------------------------------------------------------

    def _stop(self, live: FragmentRun, *, keep: bool) -> bool:
        if live.query is not None:
            drained = queries.stop(live.query, pause=lambda: self.pause(live.id))
            live.query = None
            self._log.info("fragment stopped", fragment=live.id, drained=drained, kept=keep)
        live.stopped(retry_at_ms=self._clock_ms() + FAILED_ACTION_MS, now_ms=self._clock_ms())
        if not keep:
            self._remove(live)
        self._around.store.forget(live.id)
        self._release(live)
        return True

    def pause(self, fragment_id: str) -> None:
        """Let the fragment plan no new batch."""
        try:
            self._around.channels.pause(fragment_id)
        except redis.RedisError:
            return  # no broker, no batch that could begin

    def _remove(self, live: FragmentRun) -> None:
        """Remove what a fragment that nobody wants left in the broker, and mark its checkpoint for removal.

        The checkpoint stays for a while: a plan that is rolled back starts the fragment again from where it was.
        """
        around = self._around
        desired = around.desired()
        fragment = around.store.records().get(live.id) or desired.outgoing.get(live.id)
        outputs = output_positions(fragment.tasks, around.task_types) if fragment else frozenset()
        # By whoever has not heard yet that it is gone, or that the one is which went on writing there.
        is_read_still = live.id in desired.outgoing or live.id in around.store.having("left")
        # Those whose work it went on with ended before it began.
        over = line(desired, fragment.inherits if fragment else ()) | {live.id}
        others = (other for other in (*desired.wanted.values(), *desired.outgoing.values()) if other.id not in over)
        taken_over = {channel: other for other in others for channel in other.written}
        if live.id in desired.outgoing:
            self._savepoints.leave_channels(fragment, for_good=True)
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
        for part in self._outputs.parts_of(fragment).values() if fragment else ():
            heir = taken_over.get(keys.whole_of(part))
            if heir is None:
                self._leave_behind(part, PARTS_KEPT_S)
            else:
                self._outputs.pass_on(part, heir)
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

    def _action_failed(self, live: FragmentRun, error: Exception) -> None:
        failure = explain_error(error)
        now_ms = self._clock_ms()
        if live.state is State.STARTING:
            self.failed(live, failure)
        elif live.state is State.DRAINING:
            live.stopped(retry_at_ms=now_ms + FAILED_ACTION_MS, now_ms=now_ms)
        else:
            live.action_failed(str(failure), retry_at_ms=now_ms + FAILED_ACTION_MS)
        if not failure.broker_is_away and not isinstance(error, FragmentFailed):
            self._log.warning("action failed", fragment=live.id, exc_info=error)

    def failed(self, live: FragmentRun, failure: FragmentFailed) -> None:
        """The fragment's start or its query failed: tell, and let it wait."""
        now_ms = self._clock_ms()
        retry_at_ms = live.failed(str(failure), now_ms=now_ms, broker_is_away=failure.broker_is_away)
        self._log.warning("fragment failed", fragment=live.id, error=str(failure), retry_in_ms=retry_at_ms - now_ms)
        self._on_event("fragment_failed", at_ms=now_ms, fragment=live.id, error=str(failure), retry_at_ms=retry_at_ms)

