"""Does on the broker what instructions say: channels, their readers, and control hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import (
    are_recorded,
    begin_ranges,
    forget_ranges,
    keep_inputs,
    note_streams,
    rest_ranges,
)
from workers.engine.channels.channel_config import CAPACITY_BLOCKS, OPEN_CAPACITY_BLOCKS
from workers.engine.channels.control import PART
from workers.engine.keyed_choices import read_choices
from workers.engine.spark.failure_messages import FragmentFailed

from ..transport.claims import withdraw
from .broker_instructions import (
    Activate,
    BeginRanges,
    BrokerInstruction,
    ClosePart,
    CloseValve,
    ComeBack,
    Commit,
    DeleteChannel,
    DropControl,
    DropRoute,
    Expire,
    ForgetFragment,
    ForgetRanges,
    Join,
    KeepInputs,
    KeepMeters,
    MarkLeft,
    MarkReady,
    OpenChannel,
    OpenPart,
    OpenValve,
    PassPart,
    Persist,
    RestRanges,
    Resume,
    SetAlternate,
    SetPace,
    SetRoute,
    SetTail,
    Unregister,
    Withdraw,
)
from .context import SlotContext
from .delays import METERS_KEPT_S, PARTS_KEPT_S
from .fragment_run import FragmentRun
from .snapshot import LEFT, READY


class BrokerActuator:
    """Follows instructions on the broker."""

    def __init__(
        self, context: SlotContext, *, clock_ms: Callable[[], int], on_event: Callable[..., None]
    ) -> None:
        self._context = context
        self._clock_ms = clock_ms
        self._on_event = on_event

    def do(self, run: FragmentRun, instruction: BrokerInstruction) -> None:
        channels = self._context.channels
        match instruction:
            case OpenChannel(channel, position, keep_events):
                self._change(channel, "persist")
                channels.open_channel(
                    channel, schema_json=run.schemas[position], capacity=self._capacity(run), retain=keep_events)
            case OpenPart():
                self._open_part(run, instruction)
            case ClosePart(part, position, bundle):
                info = channels.info(part)
                for reader in info.readers if info is not None else ():
                    channels.unregister(part, reader)
                self._change(part, "expire", PARTS_KEPT_S)
                self._context.broker.hdel(keys.valve(run.id), part_field(position, bundle))
            case PassPart(part, position, heir):
                self._context.broker.hset(keys.valve(heir), part_field(position, keys.reader_of(part)), 1)
            case Join():
                self._join(instruction)
            case Unregister(channel, reader, for_good):
                channels.unregister(channel, reader, for_good=for_good)
            case BeginRanges(place, offsets, streams):
                begin_ranges(self._context.broker, channels, run.id, place, offsets, streams)
            case KeepInputs(offsets, streams):
                if are_recorded(self._context.broker, run.id):
                    note_streams(self._context.broker, run.id, streams)
                    keep_inputs(channels, run.id, offsets)
            case RestRanges(place, batches):
                rest_ranges(self._context.broker, run.id, place, batches=batches)
            case ForgetRanges(names):
                forget_ranges(self._context.broker, channels, run.id, names)
            case Commit(channel, offset):
                channels.commit(channel, run.id, offset)
            case Persist(channel):
                self._change(channel, "persist")
            case Expire(channel, after_s):
                self._change(channel, "expire", after_s)
            case DeleteChannel(channel):
                channels.delete_channel(channel)
            case _:
                self._control(run.id, instruction)

    def _control(self, fragment_id: str, instruction: BrokerInstruction) -> None:
        channels, broker, valve = self._context.channels, self._context.broker, keys.valve(fragment_id)
        match instruction:
            case OpenValve(position, from_batch):
                channels.open_outlet(fragment_id, position, from_batch=from_batch)
            case CloseValve(position):
                channels.close_outlet(fragment_id, position)
            case SetTail(None):
                channels.open_tail(fragment_id)
            case SetTail(active, from_batch):
                channels.close_tail(fragment_id, active - 1, from_batch=from_batch)
            case SetRoute(position, reader, partitioning, channel, from_batch, instead):
                channels.route(
                    fragment_id, position, reader, partitioning, channel=channel, from_batch=from_batch,
                    instead=instead)
            case SetAlternate(position, name, from_batch, task):
                channels.switch(fragment_id, position, name, from_batch=from_batch)
                if task and (chosen := read_choices(broker, task).in_force):
                    channels.switch_keys(fragment_id, position, chosen, from_batch=from_batch)
            case DropRoute(position, reader):
                channels.unroute(fragment_id, position, reader)
            case Activate(done_batch):
                channels.activate(fragment_id, done_batch=done_batch)
            case SetPace(interval_ms):
                channels.pace(fragment_id, interval_ms)
            case Withdraw():
                heir = withdraw(broker, fragment_id)
                if heir is not None:
                    raise FragmentFailed(f"{heir} goes on with it on another node.")
            case Resume():
                channels.resume(fragment_id)
            case DropControl(fields):
                broker.hdel(valve, *fields)
            case MarkReady():
                broker.hset(valve, READY, 1)
            case MarkLeft():
                broker.hset(valve, LEFT, 1)
            case ComeBack():
                broker.hdel(valve, LEFT)
                self._context.store.record_left(fragment_id, has_left=False)
            case KeepMeters():
                broker.persist(keys.meter(fragment_id))
            case ForgetFragment(stood_by):
                channels.forget_fragment(fragment_id, keeps_control=stood_by and broker.hexists(valve, keys.COPIED))
                # What the JVM counted last arrives within the second: it must find meters that will expire.
                broker.hincrby(keys.meter(fragment_id), "in:n", 0)
                broker.expire(keys.meter(fragment_id), METERS_KEPT_S)

    @staticmethod
    def _capacity(run: FragmentRun) -> int:
        return OPEN_CAPACITY_BLOCKS if run.mode.is_open else CAPACITY_BLOCKS

    def _open_part(self, run: FragmentRun, part: OpenPart) -> None:
        # The control hash knows of it first: whatever dies now, the part is closed with the others.
        self._context.broker.hset(keys.valve(run.id), part_field(part.position, part.bundle), 1)
        self._change(part.part, "persist")
        self._context.channels.open_channel(
            part.part, schema_json=run.schemas[part.position], capacity=self._capacity(run))
        self._context.channels.join(part.part, part.reader, predecessors=part.predecessors)

    def _join(self, join: Join) -> None:
        joined = self._context.channels.join(
            join.channel, join.reader, where=join.where, predecessors=join.predecessors)
        if joined.kept_since is not None:
            self._on_event(
                "joined_late", at_ms=self._clock_ms(), fragment=join.reader, channel=join.channel, asked=join.where,
                kept_since_ms=None if joined.kept_since == "all" else int(joined.kept_since),
            )

    def _change(self, channel: str, command: str, *arguments: int) -> None:
        """Let all keys of a channel expire, or persist, in one round trip."""
        pipeline = self._context.broker.pipeline(transaction=False)
        for key in keys_of(channel):
            getattr(pipeline, command)(key, *arguments)
        pipeline.execute()


def keys_of(channel: str) -> Iterable[str]:
    """All keys of a channel."""
    return keys.channel(channel), keys.meta(channel), keys.readers(channel)


def part_field(position: int, bundle: str) -> str:
    """The field of a control hash by which a part is known."""
    return f"{position}{PART}{bundle}"
