"""Observation: takes the snapshot of a fragment for an action, and reads no more than that action asks for.

The broker is asked at most once, in one pipeline. A fragment that runs as desired has no action, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import Savepoint
from scheduler.model.ring import Ring
from scheduler.model.saved_states import SavedTask
from workers.engine.channels import keys

from ..transport.gifts import NEAR
from .context import SlotContext
from .fragment_run import FragmentRun
from .given_keys import given_to
from .handover_stages import predecessors, remote_successors, successors
from .inputs import channels_of
from .named_savepoints import saved
from .reconcile import (
    Action,
    ActivateRoutes,
    BringKeys,
    CloseTail,
    CopyState,
    DivideStream,
    End,
    Leave,
    OpenOutlet,
    OpenTail,
    Pause,
    Restart,
    Start,
    Stop,
    SwitchAlternates,
    Unroute,
)
from .retirement import inputs_of, streams_of, writers_of
from .savepoint_decisions import restores, takes_over
from .snapshot import Records, Snapshot
from .standby import inputs_foreseen


@dataclass(frozen=True, slots=True)
class Wishes:
    """The requests of a look to the broker: channels, and the control hashes of fragments."""

    channels: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()


class Observer:
    """Takes snapshots of the fragments of a slot."""

    def __init__(self, context: SlotContext, *, clock_ms: Callable[[], int]) -> None:
        self._context = context
        self._clock_ms = clock_ms

    def records(self, fragment_id: str) -> Records:
        """All that stands on disk of a fragment."""
        store = self._context.store
        return Records(
            chain=store.known_fragment(fragment_id), own_record=store.own_fragment(fragment_id),
            begun=store.begun(fragment_id),
            progress=store.progress(fragment_id), has_begun=store.has_begun(fragment_id),
            has_ended=store.has(fragment_id, "ended"), is_paused=store.has(fragment_id, "paused"),
            has_left=store.has(fragment_id, "left"), standby=store.standby(fragment_id),
        )

    def look(
        self, run: FragmentRun, desired: DesiredState, action: Action, *, has_lock: bool, has_handover_lock: bool
    ) -> Snapshot:
        """The fragment as it stands, for one action.

        Parameters
        ----------
        has_lock, has_handover_lock : bool
            Whether this slot may run the fragment, and may take over the work of others now.

        Raises
        ------
        redis.RedisError
            The broker does not answer.
        """
        # Records before channels: what a query reads and writes meanwhile makes it look less far than it is.
        records = self.records(run.id) if _asks_records(run, action) else Records()
        wishes = _wishes(run, desired, action, records, has_lock=has_lock)
        if isinstance(action, End) and remote_successors(desired, run.id):  # what is on this node's disk is read first
            inputs = (item.channel for item in action.fragment.inputs)
            wishes = replace(wishes, channels=tuple(dict.fromkeys((*wishes.channels, *inputs))))
        channels, controls = self._context.channels.look(wishes.channels, wishes.controls)
        is_compiled = isinstance(action, Start) and run.compiled is not None
        parts = self._saved(action, records)
        return Snapshot(
            now_ms=self._clock_ms(), desired=desired, actual=run.actual(), task_types=self._context.task_types,
            since_ms=run.since_ms, running=run.fragment, has_query=run.query is not None, is_compiled=is_compiled,
            writes_files=is_compiled and run.compiled.file_sink is not None,
            standby=run.standby and run.standby.whole, may_stand_by=run.may_stand_by(now_ms=self._clock_ms()),
            standby_failed=run.standby is not None and not run.standby.query.isActive,
            is_held=run.is_held, has_lock=has_lock,
            has_handover_lock=has_handover_lock, records=records,
            savepoints=dict(self._savepoints(desired, action, records)),
            taken=self._context.store.taken() if isinstance(action, Leave) and desired.takers else frozenset(),
            saved=parts, channels=channels, controls=controls,
            due_after_ms=self._due_after_ms(action, records, parts), ends=dict(run.ends),
            rounds=run.rounds, brought_ms=run.brought_ms,
            is_ahead=not isinstance(action, BringKeys) or all(
                self._context.store.has(keys.gift_name(giver, run.id), NEAR)
                for giver in action.fragment.remote_givers),
        )

    def _savepoints(
        self, desired: DesiredState, action: Action, records: Records
    ) -> Iterable[tuple[str, Savepoint]]:
        names: list[str] = []
        if isinstance(action, Start | End | Pause | Leave) and takes_over(action.fragment, records):
            names += predecessors(desired, action.fragment)
            if desired.is_from_elsewhere(action.fragment):
                savepoint = self._context.store.received(action.fragment.id)
                yield from ((name, savepoint) for name in names if savepoint is not None)
                names = []
        if isinstance(action, End):
            inputs = {item.channel for item in action.fragment.inputs}
            names += [name for name, outgoing in desired.outgoing.items() if inputs.intersection(outgoing.written)]
        for name in dict.fromkeys(names):
            savepoint = given_to(self._context.store, name, action.fragment.id)
            if savepoint is not None:
                yield name, savepoint

    def _saved(self, action: Action, records: Records) -> Mapping[SavedTask, Savepoint]:
        """What the fragment begins with of named savepoints, where it has still to begin."""
        if not isinstance(action, Start | End | Pause | Leave) or not restores(action.fragment, records):
            return {}
        return saved(self._context.store.files, action.fragment.restores.values())

    def _due_after_ms(self, action: Action, records: Records, parts: Mapping[SavedTask, Savepoint]) -> int | None:
        """When a source's next number would be due; asked for only after a pause, and of one that begins with a named
        savepoint, since its schedule may be a file."""
        if parts:
            saved_task = action.fragment.restores.get(action.fragment.tasks[0].id)
            source_offset = parts[saved_task].source_offset if saved_task in parts else None
        elif records.is_paused and isinstance(action, Start | End | Leave):
            source_offset = records.progress.source_offset or (records.begun and records.begun.source_offset)
        else:
            return None
        if not source_offset:
            return None
        source = (records.chain or action.fragment).tasks[0]
        return self._context.engine.due_ms(source, source_offset["next"])


def _asks_records(run: FragmentRun, action: Action) -> bool:
    """Whether a decision on the action asks what stands on disk."""
    match action:
        case Start() | Restart() | End() | CopyState() | BringKeys() | Pause() | Leave():
            return True
        case DivideStream() | OpenTail() | CloseTail() | Unroute() | SwitchAlternates() if run.fragment.inherits:
            return True  # it may repeat another's batches
        case DivideStream() | ActivateRoutes() | OpenOutlet() | OpenTail():
            return run.is_held is not None
        case Stop(_, keep):
            return run.query is None and not keep
    return False


def _wishes(
    run: FragmentRun, desired: DesiredState, action: Action, records: Records, *, has_lock: bool
) -> Wishes:
    """What a decision on the action asks the broker."""
    match action:
        case Start() if run.compiled is not None:
            return Wishes(run.fragment.written, (run.id, *_takers(run.fragment)))
        case Start(fragment):
            return _to_begin(fragment, records) if has_lock else Wishes()
        case Restart(fragment):
            repeats = records.begun is not None and records.begun.repeats
            return Wishes((*channels_of(inputs_of(fragment, records)), *(fragment.written if repeats else ())))
        case End(fragment) | Pause(fragment) | Leave(fragment):
            return _to_end(run, desired, action, fragment, records)
        case CopyState(fragment, heir=heir) if heir is not None:
            return Wishes(tuple(channels_of(inputs_of(fragment, records))), (*writers_of(fragment), heir.id))
        case CopyState():
            read = records.progress.offsets
            return Wishes(tuple(item.channel for item in run.fragment.inputs if item.channel not in read))
        case BringKeys():
            return Wishes(controls=(run.id,))
        case DivideStream(_, position, _, partitioning):
            channel = run.fragment.channel(position)
            parts = (keys.part(channel, bundle) for bundle in partitioning.bundles)
            fragment = desired.wanted.get(run.id, run.fragment)
            readers = (fragment.readers_of(bundle) for bundle in partitioning.served)
            return Wishes((channel, *parts), (run.id, *chain.from_iterable(readers)))
        case Stop(_, keep):
            return Wishes(controls=(run.id,)) if run.query is None and not keep else Wishes()
        case ActivateRoutes() if run.is_held is not None:
            return Wishes()  # what is not in force has been seen, and the query rests since
        case Unroute() | ActivateRoutes():
            return Wishes(controls=(run.id,))
    return Wishes()


def _takers(fragment: WantedFragment) -> Iterable[str]:
    """The bundles that read the fragment's streams divided by key, and their predecessors."""
    rings = (how for readers in fragment.routes.values() for how in readers.values() if isinstance(how, Ring))
    return chain.from_iterable(fragment.readers_of(part) for how in rings for part in how.served)


def _to_begin(fragment: WantedFragment, records: Records) -> Wishes:
    if takes_over(fragment, records) and not records.is_paused:
        if records.is_standby:
            return Wishes()  # what it reads is looked at when it has taken over
        return Wishes(tuple(dict.fromkeys([*(item.channel for item in inputs_foreseen(fragment)), *fragment.written])))
    channels = [*channels_of(inputs_of(fragment, records)), *records.progress.offsets]
    may_go_on = records.chain is not None and (records.is_paused or bool(records.progress.offsets))
    if not may_go_on:
        return Wishes(tuple(dict.fromkeys(channels)))
    channels += [*fragment.written, *records.chain.written]
    return Wishes(tuple(dict.fromkeys(channels)), (fragment.id,))


def _to_end(
    run: FragmentRun, desired: DesiredState, action: Action, fragment: WantedFragment, records: Records
) -> Wishes:
    channels: list[str] = [item.channel for item in fragment.inputs] if records.is_paused else []
    is_at_rest = run.query is None or bool(run.is_held)
    if isinstance(action, End | Pause) and records.begun is not None and records.begun.repeats:
        channels += fragment.written
    match action:
        case End():
            read = records.progress.offsets
            channels += [item.channel for item in fragment.inputs if item.channel not in read]
            channels += [*(item.channel for item in fragment.inputs), *fragment.written] if is_at_rest else []
        case Pause() if is_at_rest and not records.progress.is_done:
            channels += records.progress.offsets
        case Leave():
            channels += channels_of(inputs_of(fragment, records))
            channels += streams_of(fragment) if is_at_rest else ()
            heirs = (heir.id for heir in successors(desired, fragment.id))
            return Wishes(tuple(dict.fromkeys(channels)), (*writers_of(fragment), *heirs))
    return Wishes(tuple(dict.fromkeys(channels)))
