"""The outputs of a fragment: its channels, who reads them, and its tail; before its query starts and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum

from scheduler.contracts.desired import Outlets, Routes, WantedFragment, Weights, made_in
from workers.engine.channels import keys
from workers.engine.channels.config import CAPACITY_BLOCKS, KEEP_EVENTS
from workers.engine.spark.compile import output_positions

from .context import SlotContext
from .fragment_run import FragmentRun
from .handover import line
from .reconcile import (
    Change,
    CloseOutlet,
    CloseTail,
    OpenOutlet,
    OpenTail,
    RegisterReaders,
    Route,
    UnregisterReaders,
    Unroute,
)
from .retirement import LEFT

RETRY_MS = 250  # for what others must have done before
ACTIVATE_AFTER_MS = 2_500  # in which batches with events bring a route into force
PART = ":part:"  # in a fragment's control hash, between position and bundle: a part of a stream that was opened
PARTS_KEPT_S = 2 * 3600  # longer than a checkpoint that was removed, which may go on from there


class Turn(Enum):
    """What can be done towards a new division of a stream."""

    WAIT = "wait"  # for bundles to begin, or for who takes over a place in the whole stream
    CHANGE = "change"
    DIVIDE = "divide"  # it is read whole: its parts begin between two batches, exactly where that ends


class OutputChannels:
    """Opens and closes channels and tails on the broker, and registers readers."""

    def __init__(
        self, around: SlotContext, *, clock_ms: Callable[[], int], on_event: Callable[..., None]
    ) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._on_event = on_event

    def prepare(
        self, whole: WantedFragment, schemas: Sequence[str], *, has_begun: bool
    ) -> tuple[Outlets, Routes]:
        """Bring channels and valves to what is wanted, whatever an earlier life of the fragment left there.

        What is in force then: a stream that is still read whole, and shall be divided, is so once the query runs.
        """
        channels = self._around.channels
        first_batch = None if has_begun else 0
        outputs = output_positions(whole.tasks, self._around.task_types)
        undivided = {
            position: self._read_whole_by(whole, position, readers) for position, readers in whole.routes.items()}
        outlets = {
            position: readers for position in range(len(whole.tasks))
            if (readers := whole.outlets.get(position, frozenset()).union(*undivided.get(position, {}).values()))}
        for position in range(len(whole.tasks)):
            readers, routed = whole.outlets.get(position, frozenset()), whole.routes.get(position, {}).keys()
            # Those that go on with parts may still have to read what there was before these.
            staying = readers | routed | whole.predecessors(readers | routed)
            if position not in outlets and position not in outputs:
                if channels.info(whole.channel(position)) is not None:
                    self._close_outlet(whole, position, self._strays(whole, position, staying))
                continue
            self._open_channel(whole, position, schemas[position], readers)
            if position not in outputs:  # who reads an output is not the engine's business
                staying |= self._around.desired().outgoing.keys()
                for reader in self._strays(whole, position, staying):
                    channels.unregister(whole.channel(position), reader)
            channels.open_outlet(whole.id, position, from_batch=first_batch)
        routes = {
            position: {reader: weights for reader, weights in readers.items() if not undivided[position][reader]}
            for position, readers in whole.routes.items()}
        routes = {position: readers for position, readers in routes.items() if readers}
        self._prepare_routes(whole, routes, schemas, first_batch)
        self._set_active(whole.id, whole.active, of=len(whole.tasks))
        self._around.broker.persist(keys.meter(whole.id))
        channels.resume(whole.id)
        return outlets, routes

    def _strays(self, fragment: WantedFragment, position: int, staying: Set[str]) -> list[str]:
        """Who has a place in a stream and should not: nobody of a later plan than what is known here of the fragment,
        who may have taken over from another."""
        desired = self._around.desired()
        if fragment.id in desired.outgoing:
            return []
        readers = self._around.channels.info(fragment.channel(position)).readers.keys() - staying
        return [reader for reader in readers if made_in(reader) <= desired.generation]

    def _read_whole_by(
        self, fragment: WantedFragment, position: int, readers: Iterable[str]
    ) -> Mapping[str, frozenset[str]]:
        """Who of readers that are to get parts, and of those before each, still reads the whole stream, without end.

        While one before it does, a reader will take over exactly there.
        """
        lines = {reader: self._line_of(fragment, reader) for reader in readers}
        whole = self._around.channels.endless(fragment.channel(position), frozenset().union(*lines.values()))
        return {reader: whole & line for reader, line in lines.items()}

    def _line_of(self, fragment: WantedFragment, reader: str) -> frozenset[str]:
        return line(self._around.desired(), fragment.heirs.get(reader, ())) | {reader}

    def _prepare_routes(
        self, whole: WantedFragment, routes: Routes, schemas: Sequence[str], first_batch: int | None
    ) -> None:
        channels = self._around.channels
        before = channels.routes(whole.id)
        for position, reader in before:
            if reader not in whole.routes.get(position, {}):
                channels.unroute(whole.id, position, reader)
        for position, readers in whole.routes.items():
            self._persist(whole.channel(position))  # its fence holds for the parts, too
            for reader, weights in readers.items():
                self._open_parts(whole, position, schemas[position], weights)
                if reader in routes.get(position, {}):
                    self._route(whole, position, reader, weights, from_batch=first_batch)
        self._close_parts(whole, whole.routes)
        progress = self._around.store.progress(whole.id)
        if progress.is_done and (before or routes):  # nobody need wait for events that may not come
            channels.activate(whole.id, done_batch=progress.batch)

    def _open_parts(self, fragment: WantedFragment, position: int, schema: str, weights: Weights) -> None:
        """Every part of a stream is open, and has its reader's place, before anything is written there."""
        for bundle in sorted(weights):
            part = keys.part(fragment.channel(position), bundle)
            self._around.broker.hset(keys.valve(fragment.id), f"{position}{PART}{bundle}", 1)
            self._persist(part)
            self._around.channels.open_channel(part, schema_json=schema, capacity=CAPACITY_BLOCKS)
            self._around.channels.join(part, bundle)

    def _are_there(self, weights: Weights) -> bool:
        """Whether the bundles that are to get events have begun to read, so that no event waits for their start."""
        broker = self._around.broker
        return all(
            broker.exists(keys.valve(bundle)) and not broker.hexists(keys.valve(bundle), LEFT)
            for bundle, weight in weights.items() if weight > 0
        )

    def _route(
        self, fragment: WantedFragment, position: int, reader: str, weights: Weights, **how: int | bool | None
    ) -> None:
        self._around.channels.route(
            fragment.id, position, reader, weights, channel=fragment.channel(position), **how
        )

    def parts_of(self, fragment: WantedFragment) -> dict[tuple[int, str], str]:
        """The channels in which the fragment's streams are divided, by position and the bundle that reads."""
        control = self._around.channels.control(fragment.id)
        found = [name.split(PART) for name in control if PART in name]
        return {
            (int(position), bundle): keys.part(fragment.channel(int(position)), bundle) for position, bundle in found
        }

    def pass_on(self, part: str, heir: WantedFragment) -> None:
        """A part belongs to the fragment that goes on writing its stream from now on."""
        position = heir.written.index(keys.whole_of(part))
        self._around.broker.hset(keys.valve(heir.id), f"{position}{PART}{keys.reader_of(part)}", 1)

    def _close_parts(self, fragment: WantedFragment, *kept: Routes) -> None:
        """Nobody reads the other parts any more; the batch under way may still be written there."""
        read = {
            (position, bundle) for routes in kept for position, readers in routes.items()
            for weights in readers.values() for bundle in weights}
        for (position, bundle), part in self.parts_of(fragment).items():
            if (position, bundle) in read:
                continue
            self._around.channels.unregister(part, bundle)
            for key in channel_keys(part):
                self._around.broker.expire(key, PARTS_KEPT_S)
            self._around.broker.hdel(keys.valve(fragment.id), f"{position}{PART}{bundle}")

    def _persist(self, channel: str) -> None:
        """What was left to expire is used again."""
        for key in channel_keys(channel):
            self._around.broker.persist(key)

    def _open_channel(self, fragment: WantedFragment, position: int, schema: str, readers: Iterable[str]) -> None:
        channel = fragment.channel(position)
        task = fragment.tasks[position]
        is_output = position in output_positions(fragment.tasks, self._around.task_types)
        keep_events = int(task.config.get("keep_events", KEEP_EVENTS)) if is_output else 0
        self._persist(channel)
        self._around.channels.open_channel(
            channel, schema_json=schema, capacity=CAPACITY_BLOCKS, retain=keep_events,
        )
        self._register(fragment, position, readers)

    def _register(self, fragment: WantedFragment, position: int, readers: Iterable[str]) -> None:
        """Let fragments read a stream from where they ask to; who goes on with another's work sees to it itself."""
        for reader in readers:
            where = fragment.joins.get(position, {}).get(reader, "now")
            channel = fragment.channel(position)
            # One before its predecessors may still read here, where plans came faster than they were enacted.
            before = line(self._around.desired(), fragment.heirs.get(reader, ()))
            joined = self._around.channels.join(channel, reader, where=where, predecessors=sorted(before))
            if joined.kept_since is not None:
                self._on_event(
                    "joined_late", at_ms=self._clock_ms(), fragment=reader, channel=channel, asked=where,
                    kept_since_ms=None if joined.kept_since == "all" else int(joined.kept_since),
                )

    def change(self, live: FragmentRun, action: Change) -> None:
        """Bring a change of a running fragment into force."""
        channels = self._around.channels
        outlets = {position: set(readers) for position, readers in live.outlets.items()}
        routes = {position: dict(readers) for position, readers in live.routes.items()}
        fragment = self._as_wanted(live)
        match action:
            case OpenOutlet(fragment_id, position, readers):
                self._open_channel(fragment, position, live.schemas[position], readers)
                channels.open_outlet(fragment_id, position)
                outlets[position] = set(readers)
            case RegisterReaders(_, position, readers):
                self._register(fragment, position, readers)
                outlets[position] |= readers
            case UnregisterReaders(_, position, readers):
                for reader in readers:
                    channels.unregister(fragment.channel(position), reader)
                outlets[position] -= readers
            case CloseOutlet(_, position, readers):
                self._close_outlet(fragment, position, readers)
                outlets[position] = set()
            case Route(_, position, reader, weights):
                self._route(fragment, position, reader, weights)
                self._is_divided(live, action)
                return
            case Unroute(_, position, reader):
                channels.unroute(fragment.id, position, reader)
                # It may not have come to where its parts began.
                channels.unregister(fragment.channel(position), reader)
                routes[position].pop(reader)
                self._close_parts(fragment, routes, fragment.routes)
            case CloseTail(fragment_id, active) | OpenTail(fragment_id, active):
                self._set_active(fragment_id, active, of=len(fragment.tasks))
                live.changed(active=active)
                return
        live.changed(outlets={position: frozenset(readers) for position, readers in outlets.items()})
        if isinstance(action, Unroute):
            live.changed(routes=routes, activate_at_ms=self._clock_ms() + ACTIVATE_AFTER_MS)

    def turn_of(self, live: FragmentRun, route: Route) -> Turn:
        """What can be done now towards a new division of a stream. The parts are open from here on."""
        fragment, position = self._as_wanted(live), route.position
        self._open_parts(fragment, position, live.schemas[position], route.weights)
        if not self._are_there(route.weights):
            return Turn.WAIT
        whole = self._read_whole_by(fragment, position, [route.reader])[route.reader]
        if not whole:
            return Turn.CHANGE
        return Turn.DIVIDE if route.reader in whole else Turn.WAIT

    def divide(self, live: FragmentRun, route: Route, *, from_batch: int) -> None:
        """Let a reader that reads the whole stream go on with its parts, from the next batch of a query at rest on."""
        self._route(
            self._as_wanted(live), route.position, route.reader, route.weights, from_batch=from_batch, instead=True)
        self._is_divided(live, route)

    def _is_divided(self, live: FragmentRun, route: Route) -> None:
        """A route is asked for: whoever read the whole stream for that reader does so no longer."""
        fragment, position = self._as_wanted(live), route.position
        over = self._line_of(fragment, route.reader)
        outlets = {at: readers - over if at == position else readers for at, readers in live.outlets.items()}
        if position in live.outlets and not outlets[position]:
            if position not in output_positions(fragment.tasks, self._around.task_types):
                self._around.channels.close_outlet(fragment.id, position)
            outlets.pop(position)
        routes = {at: dict(readers) for at, readers in live.routes.items()}
        routes.setdefault(position, {})[route.reader] = route.weights
        self._close_parts(fragment, routes, fragment.routes)
        live.changed(outlets=outlets)
        live.changed(routes=routes, activate_at_ms=self._clock_ms() + ACTIVATE_AFTER_MS)

    def _as_wanted(self, live: FragmentRun) -> WantedFragment:
        """The whole chain that runs, with what is now said of its readers."""
        desired = self._around.desired()
        wanted = desired.wanted.get(live.id) or desired.outgoing.get(live.id)
        if wanted is None:
            return live.fragment
        return replace(live.fragment, heirs=wanted.heirs, joins=wanted.joins, routes=wanted.routes)

    def _close_outlet(self, fragment: WantedFragment, position: int, readers: Iterable[str]) -> None:
        self._around.channels.close_outlet(fragment.id, position)
        for reader in readers:
            self._around.channels.unregister(fragment.channel(position), reader)

    def _set_active(self, fragment_id: str, active: int, *, of: int) -> None:
        if active < of:
            self._around.channels.close_tail(fragment_id, active - 1)
        else:
            self._around.channels.open_tail(fragment_id)


def channel_keys(channel: str) -> tuple[str, str, str]:
    """All keys of a channel."""
    return keys.channel(channel), keys.meta(channel), keys.readers(channel)
