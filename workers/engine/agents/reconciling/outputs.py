"""The outputs of a fragment: its channels, who reads them, and its tail. Pure.

They are prepared before its query starts, and changed while it runs. Parts of a divided stream are open, with their
readers' places, before a route leads there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from scheduler.contracts.desired import Outlets, Routes, WantedFragment, made_in
from scheduler.contracts.partitioning import Partitioning
from scheduler.model.alternates import BY, is_dynamic
from scheduler.model.ring import Ring
from workers.engine.channels import keys
from workers.engine.channels.channel_config import KEEP_EVENTS
from workers.engine.channels.control import PART

from .broker_instructions import (
    Activate,
    ClosePart,
    CloseValve,
    DropRoute,
    Join,
    KeepMeters,
    OpenChannel,
    OpenPart,
    OpenValve,
    Persist,
    Resume,
    SetAlternate,
    SetPace,
    SetRoute,
    SetTail,
    Unregister,
)
from .delays import FILES_EVERY_MS, HASTE_MS, RETRY_MS
from .instructions import Again, HoldQuery, InForce, Instruction, Instructions, RetryAt
from .reconcile import (
    Change,
    CloseOutlet,
    CloseTail,
    OpenOutlet,
    OpenTail,
    RegisterReaders,
    Repace,
    SwitchAlternates,
    UnregisterReaders,
    Unroute,
)
from .savepoint_decisions import has_repeated
from .snapshot import LEFT, READY, Control, Snapshot

# -- before its query starts -------------------------------------------------------------------------------------------


def prepare(snapshot: Snapshot, whole: WantedFragment) -> tuple[Instructions, Outlets, Routes]:
    """Bring channels and valves to what is wanted, whatever an earlier life of the fragment left there.

    Returned with what is in force then: a stream that is still read whole, and shall be divided, is divided once the
    query runs.
    """
    # The batch that a checkpoint ends with is repeated, if at all, as it was: what opens begins behind it. It gets its
    # first batch here, for nobody need wait for events that may not come.
    first_batch = snapshot.records.progress.batch + 1 if snapshot.records.has_begun else 0
    undivided = {
        position: {reader: whole_readers(snapshot, whole, position, reader) for reader in readers}
        for position, readers in whole.routes.items()}
    outlets = {
        position: readers for position in range(len(whole.tasks))
        if (readers := whole.outlets.get(position, frozenset()).union(*undivided.get(position, {}).values()))}
    steps: list[Instruction] = []
    for position in range(len(whole.tasks)):
        steps += _prepared_stream(snapshot, whole, position, first_batch, is_read=position in outlets)
    routes = {
        position: {reader: how for reader, how in readers.items() if not undivided[position][reader]}
        for position, readers in whole.routes.items()}
    routes = {position: readers for position, readers in routes.items() if readers}
    repeats = not has_repeated(snapshot, whole)
    # Until those are ready who take keys, it goes on as it divided before, among those who are there still; and what is
    # repeated is divided as it was.
    early = {
        at: route.partitioning for at, route in snapshot.routes_asked.items()
        if at[1] in routes.get(at[0], {}) and (repeats or _divides_as_before(
            snapshot, whole, routes[at[0]][at[1]], route.partitioning))}
    due = {
        position: {reader: how for reader, how in readers.items() if (position, reader) not in early}
        for position, readers in routes.items()}
    begun = snapshot.records.begun
    from_batch = begun.recorded if repeats and begun is not None else None if snapshot.records.has_begun else 0
    steps += _prepared_routes(snapshot, whole, due, from_batch)
    routes = {
        position: {reader: early.get((position, reader), how) for reader, how in readers.items()}
        for position, readers in routes.items()}
    by_key = {position: task.id for position, task in enumerate(whole.tasks)
              if is_dynamic(task.type) and task.config.get(BY)}
    if not repeats:  # else those are on that were, until all is repeated
        steps += _switched(whole.alternates, None if snapshot.records.has_begun else 0, by_key)
    progress, changes = snapshot.records.progress, (
        snapshot.routes_asked or routes or whole.alternates or whole.active < len(whole.tasks))
    # A batch that failed would fail again with a tail that rests from the next batch on only, which never comes.
    repeats_failure = snapshot.actual.has_failed and not progress.is_done
    if not repeats or repeats_failure:  # what is repeated goes on as it did
        steps.append(_tail(whole.active, of=len(whole.tasks), from_batch=progress.batch if repeats_failure else None))
    if progress.is_done and changes:  # nobody need wait for events that may not come
        steps.append(Activate(progress.batch))
    steps += [KeepMeters(), Resume()]
    return tuple(steps), outlets, routes


def _divides_as_before(
    snapshot: Snapshot, whole: WantedFragment, how: Partitioning, before: Partitioning
) -> bool:
    """Whether a stream is divided as before, for those are not ready yet who take keys."""
    return (isinstance(how, Ring) and not have_begun(snapshot, whole, how)
            and bool(before.served) and set(before.served) <= set(how.bundles))


def _prepared_stream(
    snapshot: Snapshot, whole: WantedFragment, position: int, first_batch: int | None, *, is_read: bool
) -> list[Instruction]:
    outputs, channel = snapshot.outputs_of(whole), whole.channel(position)
    readers, routed = whole.outlets.get(position, frozenset()), whole.routes.get(position, {}).keys()
    # Those that go on with parts may still have to read what there was before these.
    staying = readers | routed | whole.predecessors(readers | routed)
    if not is_read and position not in outputs:
        if channel not in snapshot.channels:
            return []
        return _closed_outlet(whole, position, _strays(snapshot, whole, position, staying))
    steps = _opened(snapshot, whole, position, readers)
    if position not in outputs:
        strays = _strays(snapshot, whole, position, staying | snapshot.desired.outgoing.keys())
        steps += [Unregister(channel, reader) for reader in strays]
    return [*steps, OpenValve(position, from_batch=first_batch)]


def _strays(snapshot: Snapshot, fragment: WantedFragment, position: int, staying: Set[str]) -> list[str]:
    """Who has a place in a stream and should not: nobody of a later plan than what is known here of the fragment,
    who may have taken over from another."""
    desired, info = snapshot.desired, snapshot.channels.get(fragment.channel(position))
    if fragment.id in desired.outgoing or info is None:
        return []
    return [reader for reader in info.readers
            if keys.copied_by(reader) not in staying and made_in(reader) <= desired.generation]


def _prepared_routes(
    snapshot: Snapshot, whole: WantedFragment, routes: Routes, first_batch: int | None
) -> list[Instruction]:
    before = snapshot.routes_asked
    steps: list[Instruction] = [
        DropRoute(position, reader) for position, reader in before if reader not in whole.routes.get(position, {})]
    for position, readers in whole.routes.items():
        steps.append(Persist(whole.channel(position)))  # its fence holds for the parts, too
        for reader, how in readers.items():
            steps += open_parts(snapshot, whole, position, how)
            if reader in routes.get(position, {}):
                steps.append(SetRoute(
                    position, reader, how, channel=whole.channel(position), from_batch=first_batch))
    return [*steps, *_closed_parts(snapshot, whole, whole.routes)]


# -- while it runs -----------------------------------------------------------------------------------------------------


def change(snapshot: Snapshot, action: Change) -> Instructions:
    """Bring a change of a running fragment into force."""
    fragment, outlets = snapshot.as_wanted(), dict(snapshot.actual.outlets)
    match action:
        case OpenOutlet():
            return _open_outlet(snapshot, fragment, action)
        case RegisterReaders(_, position, readers):
            steps = _registered(snapshot, fragment, position, readers)
            outlets[position] = outlets[position] | readers
        case UnregisterReaders(_, position, readers):
            steps = [Unregister(fragment.channel(position), reader) for reader in sorted(readers)]
            outlets[position] = outlets[position] - readers
        case CloseOutlet(_, position, readers):
            steps = _closed_outlet(fragment, position, sorted(readers))
            outlets.pop(position)
        case Unroute(_, position, reader):
            routes = {at: dict(by_reader) for at, by_reader in snapshot.actual.routes.items()}
            routes[position].pop(reader)
            steps = [
                DropRoute(position, reader),
                Unregister(fragment.channel(position), reader),  # it may not have come to where its parts began
                *_closed_parts(snapshot, fragment, routes, fragment.routes),
            ]
            return (*steps, InForce(outlets=outlets, routes=routes))
        case OpenTail():
            return _open_tail(snapshot, fragment, action)
        case Repace(_, trigger_ms):
            return (SetPace(interval_ms(snapshot, fragment, trigger_ms)), InForce(trigger_ms=trigger_ms))
        case SwitchAlternates(_, alternates):
            return (*_switched(alternates), InForce(alternates=alternates))
        case CloseTail(_, active):
            return (_tail(active, of=len(fragment.tasks)), InForce(active=active))
    return (*steps, InForce(outlets=outlets))


def _switched(
    alternates: Mapping[int, str], from_batch: int | None = None, by_key: Mapping[int, str] = MappingProxyType({})
) -> list[SetAlternate]:
    return [SetAlternate(position, name, from_batch, by_key.get(position, ""))
            for position, name in sorted(alternates.items())]


def _open_outlet(snapshot: Snapshot, fragment: WantedFragment, action: OpenOutlet) -> Instructions:
    """Publish a stream from the next batch on, whenever that comes.

    Its first batch is given while no other can begin: left to the valve, it would be the one after the next, and what
    the next one brings would not come to a reader who runs already.
    """
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    progress = snapshot.records.progress
    if not snapshot.is_held and progress.is_done:
        return (RetryAt(snapshot.now_ms + RETRY_MS),)  # a batch is about to begin, or the query to end
    return (
        *_opened(snapshot, fragment, action.position, action.readers),
        OpenValve(action.position, from_batch=progress.batch + 1),
        InForce(outlets={**snapshot.actual.outlets, action.position: action.readers}))


def _open_tail(snapshot: Snapshot, fragment: WantedFragment, action: OpenTail) -> Instructions:
    """Let more tasks work from the next batch on, whenever that comes; where batches follow one another without a rest,
    from the one after it."""
    in_force = (_tail(action.active, of=len(fragment.tasks)), InForce(active=action.active))
    if action.active >= len(fragment.tasks):
        return in_force
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    progress = snapshot.records.progress
    return (*in_force, Activate(progress.batch)) if snapshot.is_held and progress.is_done else in_force


def _opened(
    snapshot: Snapshot, fragment: WantedFragment, position: int, readers: Iterable[str]
) -> list[Instruction]:
    task = fragment.tasks[position]
    is_written = position in snapshot.written_of(fragment)  # its connector holds back what it keeps
    is_output = position in snapshot.outputs_of(fragment) and not is_written
    keep_events = int(task.config.get("keep_events", KEEP_EVENTS)) if is_output else 0
    return [
        OpenChannel(fragment.channel(position), position, keep_events),
        *((Join(fragment.channel(position), keys.SINK),) if is_written else ()),
        *_registered(snapshot, fragment, position, readers)]


def _registered(
    snapshot: Snapshot, fragment: WantedFragment, position: int, readers: Iterable[str]
) -> list[Instruction]:
    """Let fragments read a stream from where they ask to; who goes on with another's work sees to it itself."""
    return [
        Join(
            fragment.channel(position), reader, where=fragment.joins.get(position, {}).get(reader, "now"),
            predecessors=tuple(sorted(snapshot.predecessors_of(fragment, reader))))
        for reader in sorted(readers)]


def _closed_outlet(fragment: WantedFragment, position: int, readers: Iterable[str]) -> list[Instruction]:
    return [CloseValve(position), *(Unregister(fragment.channel(position), reader) for reader in readers)]


def interval_ms(snapshot: Snapshot, whole: WantedFragment, trigger_ms: int) -> int:
    """The interval of a fragment's batches; those of a sink of files further, for these are closed later anyway, and a
    batch has its price."""
    is_sink_of_files = snapshot.writes_files and len(whole.tasks) == 1
    return max(trigger_ms, FILES_EVERY_MS) if is_sink_of_files else trigger_ms


def hastened(snapshot: Snapshot) -> Instructions:
    """Let a query have its next batch soon, for keys stand still until it has read what has come. Its interval is as
    wanted again when that is over (``reconcile.py``). One that writes files closes none sooner."""
    types, last = snapshot.task_types, snapshot.running.tasks[-1:]
    writes_files = any(task.type in types and types[task.type].terminal in ("parquet", "json") for task in last)
    if writes_files or (snapshot.actual.trigger_ms or 0) <= HASTE_MS:
        return ()
    return (SetPace(HASTE_MS), InForce(trigger_ms=HASTE_MS))


def _tail(active: int, *, of: int, from_batch: int | None = None) -> SetTail:
    return SetTail(active, from_batch) if active < of else SetTail(None)


# -- parts of divided streams ------------------------------------------------------------------------------------------


def whole_readers(snapshot: Snapshot, fragment: WantedFragment, position: int, reader: str) -> frozenset[str]:
    """Those of a reader that is to get parts, and of its predecessors, that still read the whole stream, without end.

    While one before it does, the reader will take over exactly there.
    """
    info = snapshot.channels.get(fragment.channel(position))
    if info is None:
        return frozenset()
    return (snapshot.predecessors_of(fragment, reader) | {reader}) & (info.readers.keys() - info.limits.keys())


def have_begun(snapshot: Snapshot, fragment: WantedFragment, partitioning: Partitioning) -> bool:
    """True where the bundles that are to get events have begun to read, so that no event waits for their start; those
    that take keys have to be ready, for they begin with the last states of these."""
    return all(
        READY in snapshot.controls.get(part, {}) if isinstance(partitioning, Ring) and _takes_keys(fragment, part)
        else any((control := snapshot.controls.get(reader)) and LEFT not in control
                 for reader in fragment.readers_of(part))
        for part in partitioning.served)


def _takes_keys(fragment: WantedFragment, part: str) -> bool:
    """Whether a bundle goes on with others' work and reads a part of its own."""
    return bool(fragment.reader_of(part) == part and fragment.heirs.get(part))


def open_parts(
    snapshot: Snapshot, fragment: WantedFragment, position: int, partitioning: Partitioning
) -> list[OpenPart]:
    """Open every part of a stream for its reader; who goes on with another's work takes its place over by itself."""
    return [
        OpenPart(
            keys.part(fragment.channel(position), bundle), position, bundle, reader=fragment.reader_of(bundle),
            predecessors=tuple(sorted(snapshot.predecessors_of(fragment, fragment.reader_of(bundle)))))
        for bundle in partitioning.bundles]


def parts_of(control: Control, fragment: WantedFragment) -> Mapping[tuple[int, str], str]:
    """The channels in which a fragment's streams are divided, by position and the bundle that reads."""
    fields = [name.split(PART) for name in control if PART in name]
    return {
        (int(position), bundle): keys.part(fragment.channel(int(position)), bundle) for position, bundle in fields}


def divided(
    snapshot: Snapshot, fragment: WantedFragment, position: int, reader: str, partitioning: Partitioning
) -> list[Instruction]:
    """Instructions that follow a request for a route: whoever read the whole stream for that reader does so no
    longer."""
    over = snapshot.predecessors_of(fragment, reader) | {reader}
    before = snapshot.actual.outlets
    outlets = {at: readers - over if at == position else readers for at, readers in before.items()}
    is_closed = position in before and not outlets[position] and position not in snapshot.outputs_of(fragment)
    routes = {at: dict(readers) for at, readers in snapshot.actual.routes.items()}
    routes.setdefault(position, {})[reader] = partitioning
    return [
        *((CloseValve(position),) if is_closed else ()),
        *_closed_parts(snapshot, fragment, routes, fragment.routes),
        InForce(outlets=outlets, routes=routes),
    ]


def _closed_parts(snapshot: Snapshot, fragment: WantedFragment, *kept_routes: Routes) -> list[Instruction]:
    read = {
        (position, bundle) for routes in kept_routes for position, readers in routes.items()
        for how in readers.values() for bundle in how.bundles}
    return [
        ClosePart(part, position, bundle)
        for (position, bundle), part in parts_of(snapshot.control, fragment).items() if (position, bundle) not in read]
