"""Decisions that start and restart a fragment's query: in three looks. Pure.

First it takes its places and takes over what others left; then, where all that it reads is there, its chain is compiled
and takes new fencing tokens; at last its channels and valves are brought to what is wanted, and its query starts. So
that no event is lost, channels are open and readers registered before a query starts, a new fragment publishes from its
first batch, and a reader starts only where its place in every channel is registered.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.model.fragment import channel_id
from workers.engine.channels.control import active_of, alternates_of

from .broker_instructions import (
    ComeBack,
    DeleteChannel,
    ForgetFragment,
    ForgetRanges,
    KeepInputs,
    MarkReady,
    OpenChannel,
    SetPace,
    SetTail,
)
from .delays import POLL_MS, RETRY_MS, SELDOM_MS, SOON_MS
from .inputs import ends_to_note, inputs_now, streams_by_channel
from .instructions import (
    Adopt,
    Again,
    ClearCheckpoint,
    Compile,
    DropStandby,
    ForgetStandby,
    HoldQuery,
    InForce,
    Instruction,
    Instructions,
    KillQuery,
    Launch,
    NoteEnds,
    RecordStandby,
    RemoveCheckpoint,
    RetryAt,
    Show,
    StandBy,
    Wait,
)
from .other_channels import other_channels
from .outputs import hastened, interval_ms, prepare
from .reconcile import BringKeys, FragmentState, Restart, Start
from .resting import await_batch, come_to_rest
from .savepoint_decisions import Readiness, beginning_of, go_on, has_repeated, was_unregistered
from .snapshot import Snapshot
from .standby import inputs_foreseen


def start(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Start a fragment's query, or come a step nearer to it."""
    if snapshot.is_compiled:
        return _launch(snapshot, fragment)
    steps: list[Instruction] = [KillQuery()] if snapshot.has_query else []
    inputs = None
    if snapshot.has_lock:
        if snapshot.standby_failed or (snapshot.standby is None) is snapshot.records.is_standby:
            return (*steps, *stand_down(snapshot), Again(Start(fragment)))
        beginning = beginning_of(snapshot, fragment)
        steps += beginning.instructions
        if beginning.readiness is Readiness.NOT_YET:
            return (*steps, Again(Start(fragment)))
        if beginning.readiness is Readiness.WAITS and not fragment.leaving:
            steps += _stand_by(snapshot, fragment) if snapshot.standby is None else ()
            if fragment.key_ranges:
                return (*steps, Again(BringKeys(fragment)))
        inputs = inputs_now(snapshot, fragment) if beginning.readiness is Readiness.READY else None
        if inputs is not None and snapshot.standby is not None:
            return (*steps, *_after_standing_by(snapshot, replace(fragment, inputs=inputs)))
    if inputs is None:
        return (*steps, Wait(snapshot.now_ms + (SOON_MS if fragment.inherits else RETRY_MS)))
    compiling = _compile(snapshot, fragment, inputs)
    return (*steps, Show(FragmentState.STARTING), ComeBack(), *compiling, Again(Start(fragment)))


def _stand_by(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Start a fragment's query ahead of its turn, if all its inputs are open.

    Its own streams are opened too, because their readers stand by as well. A stream that it continues is open already,
    or its present writer opens it. A fragment that goes on from a copy does not stand by: it begins at once, and not
    with an empty batch.
    """
    has_copy = any(savepoint.repeats is not None for savepoint in snapshot.savepoints.values())
    whole = replace(fragment, inputs=inputs_foreseen(fragment))
    infos = (snapshot.channels.get(item.channel) for item in whole.inputs)
    if has_copy or not snapshot.may_stand_by or not all(info is not None and info.schema_json for info in infos):
        return ()
    # A reader takes the first channel of one that takes keys for the sign that those before it have ended.
    new = {} if fragment.key_ranges else {
        position: channel for position in sorted(whole.outlets)
        if (channel := whole.channel(position)) not in snapshot.channels
        and channel == channel_id(whole.id, position)}
    return (
        RecordStandby(tuple(new.values())), ClearCheckpoint(), StandBy(whole, min(whole.trigger_ms, POLL_MS)),
        *(OpenChannel(channel, position) for position, channel in new.items()))


def _after_standing_by(snapshot: Snapshot, whole: WantedFragment) -> Instructions:
    """Go on with the query that stands by, once it has done its empty batch, where it is of just this chain."""
    progress, begun = snapshot.records.progress, snapshot.records.begun
    # Batches are repeated under their numbers: an empty one before them would move these on.
    if _compiles_alike(snapshot.standby, whole) and not (begun and begun.repeats):
        if progress.batch < 0 or not progress.is_done:
            return (Wait(snapshot.now_ms + SOON_MS),)
        # Its checkpoint counts from here on, before any boundary is set by it.
        return (Show(FragmentState.STARTING), ComeBack(), Adopt(whole), ForgetStandby(), Again(Start(whole)))
    return (*stand_down(snapshot), Again(Start(whole)))


def _compiles_alike(whole: WantedFragment, fragment: WantedFragment) -> bool:
    return all(
        getattr(whole, name) == getattr(fragment, name)
        for name in ("tasks", "streams", "written", "threads", "inputs", "real_time"))


def stand_down(snapshot: Snapshot) -> Instructions:
    """Let no query stand by any more; what one has left is cleared away, but for a checkpoint that counts."""
    channels = snapshot.records.standby
    steps = () if channels is None else (
        ClearCheckpoint(), *(DeleteChannel(channel) for channel in channels), ForgetFragment(stood_by=True),
        ForgetStandby())
    return (DropStandby(failed=snapshot.standby_failed), *steps)


def _compile(snapshot: Snapshot, fragment: WantedFragment, inputs: tuple[Input, ...]) -> Instructions:
    """Compile the fragment with what it reads now, and its whole chain: a tail that was closed long ago still belongs
    to its checkpoint.

    A checkpoint of another fragment that once had this id (of an estate that began anew) is nothing to go on from.
    """
    going_on, recorded = (), snapshot.records.chain
    if snapshot.records.is_paused or was_unregistered(snapshot, fragment):
        going_on, recorded = go_on(snapshot, fragment)
    progress = snapshot.records.progress
    # A batch is ended in the mode in which it was begun: its blocks must be the same.
    real_time = fragment.real_time if progress.is_done else progress.is_open
    fragment = replace(fragment, inputs=inputs, real_time=real_time)
    begun = snapshot.records.begun
    if real_time:  # it records no ranges, and so no copy of its state is gone on with
        going_on = (*going_on, ForgetRanges())
    elif progress.offsets or (begun is not None and begun.repeats):
        going_on = (*going_on, *_kept_for_copies(snapshot, inputs))
    if recorded is None:
        return (*going_on, Compile(fragment))
    shared = min(len(recorded.tasks), len(fragment.tasks))
    has_same_parents = {item.task for item in recorded.inputs} == {item.task for item in fragment.inputs}
    if not has_same_parents or recorded.tasks[:shared] != fragment.tasks[:shared]:
        return (*going_on, RemoveCheckpoint(), Compile(fragment))
    whole = replace(fragment, tasks=max(recorded.tasks, fragment.tasks, key=len))
    return (*going_on, Compile(whole, unwanted=len(whole.tasks) - len(fragment.tasks)))


def _kept_for_copies(snapshot: Snapshot, inputs: tuple[Input, ...]) -> Instructions:
    """What is new of the inputs is kept for copies of its state from where it begins there."""
    offsets = snapshot.records.progress.offsets
    new = {item.channel: snapshot.offset_registered(item.channel) for item in inputs if item.channel not in offsets}
    places = {channel: offset for channel, offset in new.items() if offset is not None}
    return (KeepInputs(places, streams_by_channel(inputs)),) if places else ()


def _launch(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Start the query of a chain that is compiled."""
    whole = snapshot.running
    steps, outlets, routes = prepare(snapshot, whole)
    pace_ms = interval_ms(snapshot, whole, fragment.trigger_ms)
    has_tail_as_wanted = any(isinstance(step, SetTail) for step in steps)
    active = fragment.active if has_tail_as_wanted else active_of(snapshot.control, of=len(whole.tasks))
    launch = Launch(min(pace_ms, POLL_MS), outlets, routes, active, is_resumed=snapshot.records.has_begun)
    if fragment.key_ranges:
        steps = (*steps, MarkReady())
    alternates = whole.alternates if has_repeated(snapshot, whole) else {
        position: name for position, (name, _) in alternates_of(snapshot.control).items()}
    return (*steps, SetPace(pace_ms), InForce(trigger_ms=fragment.trigger_ms, alternates=alternates), launch)


def restart(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Go on with other inputs or threads, or in the other mode; not before all is there.

    Where only channels of its streams are others its query is told. Else it starts again from its checkpoint. A batch
    that is under way is done first, for it would be repeated with the inputs that it was planned with; and all that is
    repeated from a copy."""
    inputs = inputs_now(snapshot, fragment, between_batches=True)
    runs = snapshot.actual
    noted = [NoteEnds(channel, ends) for channel, ends in ends_to_note(snapshot, fragment).items()]
    if inputs is None or (set(inputs) == set(runs.inputs) and fragment.threads == runs.threads
                          and fragment.real_time == runs.real_time):
        again_ms = _looks_again_ms(snapshot, fragment, inputs)
        return (*noted, *(hastened(snapshot) if again_ms == SOON_MS else ()), RetryAt(snapshot.now_ms + again_ms))
    if not has_repeated(snapshot, fragment):
        return (*noted, RetryAt(snapshot.now_ms + RETRY_MS))
    if (others := other_channels(snapshot, fragment, inputs)) is not None:
        if snapshot.is_held is None:
            return (*noted, HoldQuery(), Again(Restart(fragment)))
        if not snapshot.is_held or not snapshot.records.progress.is_done:
            return (*noted, RetryAt(snapshot.now_ms + SOON_MS))
        return (*noted, *(_kept_for_copies(snapshot, inputs) if snapshot.records.progress.offsets else ()), others)
    return (*noted, *(await_batch(snapshot, Restart(fragment)) or (*come_to_rest(), Again(Start(fragment)))))


def _looks_again_ms(snapshot: Snapshot, fragment: WantedFragment, inputs: tuple[Input, ...] | None) -> int:
    """The delay until the next look for the channels that it is to read, in ms."""
    missing = set(fragment.inputs) - set(inputs or ())
    if inputs is not None and all(item.ending for item in missing):
        return SELDOM_MS  # they may never come
    if any(item.after and item.channel in snapshot.channels for item in missing):
        return SOON_MS  # keys stand still until it reads there
    return POLL_MS if any(item.after for item in missing) else RETRY_MS


