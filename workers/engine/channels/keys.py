"""Names of everything that Weir keeps in the broker. The Java side builds the same names in ``Keys.java``."""

from __future__ import annotations

from scheduler.model.fragment import part_id

PREFIX = "weir:"
PUSH = f"{PREFIX}push"
EVENTS = f"{PREFIX}events"
WORKER = f"{PREFIX}worker"  # is there while a worker does what is due
COPIED = "copied"  # the field of a channel's meta with the last block number that all copies of its writer have; of a
# control hash: is there while there are copies
COPY_MARK = "--"  # in the name of a copy, between fragment and node; and of a gift, between giver and heir
_COPIES = "~copies"  # as in ``unregister.lua``
SINK = "sink"  # the reader of a channel that is written to another system
LOST = f"{PREFIX}lost"  # the hash of nodes whose queries go on elsewhere, from copies of their state
CROWDED = f"{PREFIX}crowded"  # is there while the broker is nearly full (``broker_room``)
LARGEST = f"{PREFIX}largest"  # the hash of channels whose writers wait for the broker's room: what their capacity was
WEIGHED = f"{PREFIX}weighed"  # is there while an agent has just looked how large channels are
HOLDERS = f"{PREFIX}holders"  # of copies of state, by node: fault zone and room (JSON)
SECRETS = f"{PREFIX}secrets"  # sealed values by team/name


def lease(node: str) -> str:
    """The owner of a node's name. Its agent renews the lease as long as it lives
    (`workers.engine.observed.read_heartbeats`)."""
    return f"{PREFIX}lease:{node}"


def channel(channel_id: str) -> str:
    """The stream of a channel's blocks; also the pub/sub topic that tells its readers of a new block."""
    return f"{PREFIX}ch:{channel_id}"


def meta(channel_id: str) -> str:
    """The hash of a channel's schema, fence, capacity and counters."""
    return f"{channel(channel_id)}:meta"


def readers(channel_id: str) -> str:
    """The hash of a channel's readers and the last entry that each has committed."""
    return f"{channel(channel_id)}:readers"


def room(channel_id: str) -> str:
    """The pub/sub topic that tells the writers of a full channel that it has room again."""
    return f"{channel(channel_id)}:room"


def part(channel_id: str, reader: str) -> str:
    """The id of one bundle's part of a divided stream: a channel of its own, which that bundle alone reads."""
    return part_id(channel_id, reader)


def whole_of(part_id: str) -> str:
    """The channel of the whole stream, of a part of it."""
    return part_id.rpartition("@")[0]


def limit(reader: str) -> str:
    """The field of a channel's meta with the last entry for a reader whose place in the channel ends, or has ended."""
    return f"limit:{reader}"


def spill(reader: str) -> str:
    """The field of a channel's meta with the last entry that a reader's node has on disk for it."""
    return f"spill:{reader}"


def lose(reader: str) -> str:
    """The field of a channel's meta that asks a reader to give up what it has not read, but for so many blocks."""
    return f"lose:{reader}"


def skip(reader: str) -> str:
    """The field of a channel's meta with the last step of a reader over blocks that it gave up: two entries."""
    return f"skip:{reader}"


def lost(reader: str, unit: str) -> str:
    """The field of a channel's meta with how many ``blocks`` or ``events`` a reader gave up so far."""
    return f"lost_{unit}:{reader}"


def is_part(channel_id: str) -> bool:
    """True where a channel is a part of a divided stream."""
    return "@" in channel_id


def reader_of(part_id: str) -> str:
    """The bundle whose part of a stream a channel is."""
    return part_id.rpartition("@")[2]


def handover(fragment: str) -> str:
    """The hash of what a fragment left for one on another node: pieces, their manifest, and who has claimed it."""
    return f"{PREFIX}handover:{fragment}"


def ahead(heir: str) -> str:
    """The hash of a copy that goes ahead of what is left for a fragment on another node: pieces, their manifest, and
    the checksum of what has been stored there."""
    return f"{PREFIX}ahead:{heir}"


def heir(fragment: str) -> str:
    """Is there while a fragment that shall go on with the work of another node's is ready to."""
    return f"{PREFIX}heir:{fragment}"


def ranges(fragment: str) -> str:
    """The hash of where those batches of a fragment end that the oldest copy of its state lacks, by their places."""
    return f"{PREFIX}ranges:{fragment}"


def copies(fragment: str) -> str:
    """The hash of the copies of a fragment's state that are whole, by the node that holds them (JSON)."""
    return f"{PREFIX}copies:{fragment}"


def copies_at(node: str) -> str:
    """The hash of the fragments whose state a node is to hold, and the node of each."""
    return f"{PREFIX}copies-at:{node}"


def copy_name(fragment: str, node: str) -> str:
    """The name under which a copy of a fragment's state goes to a node, and is kept there."""
    return f"{fragment}{COPY_MARK}{node}"


def gift_name(giver: str, heir: str) -> str:
    """The name of the states that a bundle leaves for an heir that takes keys of it."""
    return f"{giver}{COPY_MARK}{heir}"


def copies_reader(fragment: str) -> str:
    """The reader of a fragment's inputs that holds what the oldest copy of its state has not read."""
    return f"{fragment}{_COPIES}"


def copied_by(reader: str) -> str:
    """The fragment whose copies are a reader; any other reader is itself."""
    return reader.removesuffix(_COPIES)


def intake(task_id: str) -> str:
    """The channel that the connector of a live source writes, by the running task: fragments come and go."""
    return f"in-{task_id}.0"


def is_intake(channel_id: str) -> bool:
    """True where a connector writes the channel."""
    return channel_id.startswith("in-")


def connector(task_id: str) -> str:
    """The hash of a live source: its position, its counters, and who has read it."""
    return f"{PREFIX}connector:{task_id}"


def dead_letters(task_id: str) -> str:
    """The stream of what a live source could not read, with the reasons."""
    return f"{connector(task_id)}:dead"


def sink(channel_id: str) -> str:
    """The hash of a sink that a connector writes, by its channel: its identity outside, its position, counters."""
    return f"{PREFIX}sink:{channel_id}"


def refused(channel_id: str) -> str:
    """The stream of events that the other system refused, with the reasons."""
    return f"{sink(channel_id)}:dead"


def sink_orders(channel_id: str) -> str:
    """The list of what people asked a sink to do: to write again what is kept."""
    return f"{sink(channel_id)}:orders"


def sinks(node: str) -> str:
    """The set of sinks, by channel, that a node's connector host has begun."""
    return f"{PREFIX}sinks:{node}"


def posted(task_id: str) -> str:
    """The sorted set of idempotency keys that were taken, by when."""
    return f"{connector(task_id)}:posted"


def answers(task_id: str) -> str:
    """The hash of idempotency keys that were taken: the digest of what came, and what was answered."""
    return f"{connector(task_id)}:answers"


def hosted(node: str) -> str:
    """The set of live sources, by running task, that a node's connector host has begun."""
    return f"{PREFIX}connectors:{node}"


def turn(name: str) -> str:
    """The lease of what one process of the site at a time does."""
    return f"{PREFIX}turn:{name}"


def valve(fragment_id: str) -> str:
    """The hash that controls a fragment's valves; also the topic that tells its sources of a pause."""
    return f"{PREFIX}valve:{fragment_id}"


def gate(token: str) -> str:
    """The field of a fragment's control hash that opens the gate of its query that stands by."""
    return f"gate:{token}"


def try_again(fragment_id: str) -> str:
    """Is there while somebody wants a query that failed to be tried again; its slot takes it away."""
    return f"{PREFIX}again:{fragment_id}"


def meter(fragment_id: str) -> str:
    """The hash of a fragment's meters."""
    return f"{PREFIX}meter:{fragment_id}"


def channel_meters(fragment_id: str) -> str:
    """The hash of what a fragment's meters say of each channel that it reads; it goes by itself."""
    return f"{meter(fragment_id)}:channels"


def key_meters(fragment_id: str) -> str:
    """The hash of how the events that a fragment deals out by keys spread over these, by reader (JSON); it goes by
    itself."""
    return f"{meter(fragment_id)}:keys"


def all_meters(fragment_id: str) -> tuple[str, ...]:
    """Everything in which a fragment's queries count."""
    return meter(fragment_id), channel_meters(fragment_id), key_meters(fragment_id)


def switches(task_id: str) -> str:
    """The hash of which alternate of an element got which first event, switch by switch (JSON), by running task."""
    return f"{PREFIX}switches:{task_id}"


def waves(task_id: str) -> str:
    """The alternate that an element that switches in waves has from which wave on (JSON), by running task."""
    return f"{PREFIX}waves:{task_id}"


def wave(source_id: str) -> str:
    """The newest wave that a source is to begin, by running task."""
    return f"{PREFIX}wave:{source_id}"


def wave_counter() -> str:
    """The hash with the number of the newest wave, the generation and revision of the estate that made it, and the keys
    that waves have (JSON).
    """
    return f"{PREFIX}wave-counter"


def key_switches(task_id: str) -> str:
    """The hash of which keys got which alternates from which event on (JSON), by running task."""
    return f"{PREFIX}switches:{task_id}:keys"


def keyed(task_id: str) -> str:
    """Choices of alternates by key, and the state of whatever makes them (JSON), by running task."""
    return f"{PREFIX}keyed:{task_id}"


def tap(fragment_id: str) -> str:
    """Is there while somebody looks at the streams of a fragment."""
    return f"{PREFIX}tap:{fragment_id}"


def tapped(task_id: str, fragment_id: str = "") -> str:
    """The list of what the valve of one query copied of a running task's stream: blocks, the newest first.

    Without a query the set of those that copied.
    """
    return f"{PREFIX}tapped:{task_id}" + (f":{fragment_id}" if fragment_id else "")


def desired(node: str) -> str:
    """A node's desired state."""
    return f"{PREFIX}desired:{node}"


def observed(node: str) -> str:
    """A node's report."""
    return f"{PREFIX}observed:{node}"


def qos(node: str) -> str:
    """A node's part in watching latency limits: the set-up of its manager and its reporter."""
    return f"{PREFIX}qos:{node}"


def qos_reports(node: str) -> str:
    """The list of what reporters sent to a node's manager, the oldest first."""
    return f"{qos(node)}:reports"


def qos_wishes(node: str) -> str:
    """The hash of the intervals that managers wish for a node's queries, by the managers' nodes."""
    return f"{qos(node)}:wishes"
