"""Kafka: several topics, each partition from its own offset; positions are in the broker of Weir, not in Kafka.

Partitions are assigned by hand and no group is joined, so that nothing is rebalanced and a position that was written
with a block is the only truth. Partitions that are added to a topic are read from their beginning.

A topic that was deleted and made anew is recognised by its id, if the cluster has topic ids (Kafka 2.8 and newer) and
gives them: then the stored offsets are of another log, and the topic is read from its beginning.

Not every offset is a message: ends of transactions and messages of aborted ones have offsets, too. A partition that was
read to its end is behind all of them, and none of them counts as a lost event.

A batch that cannot be decompressed comes again at each try: its end is searched, and reading goes on behind it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

from scheduler.model.bounds import PACKET_BYTES
from workers.library.live_events import AVRO
from workers.library.reach import require_allowed, require_members

from .avro import Registry
from .contract import (
    LINGER_S,
    MOST_BYTES,
    MOST_MESSAGES,
    DeadLetter,
    Message,
    Opening,
    Polled,
    Position,
    SourceAway,
    SourceRefused,
)
from .formats import SAMPLE_BYTES, UnreadableMessage
from .kafka_options import asking_options, client_options, headers_text, start_ms, time_ms
from .unreadable_batches import UnreadableBatches

TIMEOUT_S = 10.0  # of a question to the cluster
LOOK_S = 30.0  # between two looks for new partitions
USUAL_PORT = 9092
LOOK_TIMEOUT_S = 4.0  # of a question to the cluster, of somebody who waits
MOST_LOOKED_AT = 1_000  # messages of a look, over all partitions
UNREADABLE = "a batch of up to {} messages cannot be unpacked: it is damaged, or becomes too large"
AT_ONCE = 100  # messages that are taken before it is looked at how large they are


def open_kafka(opening: Opening) -> KafkaReader:
    """Read topics from their positions, or from where the config says."""
    _require_servers(opening)
    return KafkaReader(opening)


def look_at_kafka(opening: Opening, count: int) -> Iterator[Polled]:
    """The newest messages by their times: the ends of all partitions, read without a group and without a commit."""
    _require_servers(opening)
    reader = _EndsReader(opening, count)
    try:
        yield from reader.newest()
    finally:
        reader.close(for_good=True)


def _require_servers(opening: Opening) -> None:
    for server in opening.config["servers"]:
        require_allowed(server, usual_port=USUAL_PORT)


class KafkaReader:
    """A consumer of some topics."""

    timeout_s = TIMEOUT_S

    def __init__(self, opening: Opening) -> None:
        import confluent_kafka
        import confluent_kafka.admin

        self._kafka = confluent_kafka
        self._config = opening.config
        self._topics, self._away = list(opening.config["topics"]), ""
        self._registry = None if opening.config.get("format") != AVRO else Registry(
            opening.config["registry"], user=opening.config.get("registry_user") or "",
            password=opening.config.get("registry_password") or "")
        self._ids: dict[str, str] = dict((opening.position or {}).get("ids", {}))
        self._descriptions: dict[str, Any] = {}
        self._anew: list[DeadLetter] = []
        errors = confluent_kafka.KafkaError
        self._unreadable = (errors._BAD_COMPRESSION, errors._BAD_MSG)  # of a batch that comes so each time
        self._batches, self._is_elsewhere = UnreadableBatches(), False  # whether the client is to read at other places
        try:
            self._admin = confluent_kafka.admin.AdminClient(asking_options(opening))
            self._partitions(self._topics[0])  # of a cluster that leads astray there is no consumer, which would follow
            self._consumer = confluent_kafka.Consumer(client_options(opening, self._on_error))
        except confluent_kafka.KafkaException as error:
            raise SourceRefused(
                f"The config does not work: {error.args[0].str()}.",
                remedy="Keep ca, certificate and private_key as PEM, from BEGIN to END.") from None
        try:
            self._ask_ids()
            anew = self._made_anew(wait_for=self._ids)
            self._offsets = self._begin(opening.position, anew)
            self._assign()
        except BaseException:
            self.close(for_good=False)
            raise
        self._look_at_s = time.monotonic() + LOOK_S

    def position(self) -> Position:
        ids = {"ids": dict(self._ids)} if self._ids else {}
        return {"offsets": {topic: dict(parts) for topic, parts in self._offsets.items()}, **ids}

    def poll(self, timeout_s: float) -> Polled:
        if time.monotonic() >= self._look_at_s:
            self._look_for_partitions()
        if anew := self._made_anew():
            self._begin_again(anew)
        raw = self._consume(timeout_s)
        polled = self._polled_of(raw)
        if not raw and self._away:
            raise SourceAway(f"No Kafka server answers: {self._away}", remedy="It is tried again by itself.")
        if polled.messages:
            self._away = ""
        return polled

    def _polled_of(self, raw: list[Any]) -> Polled:
        """What the client gave, as messages and dead letters, and the position after it."""
        messages: list[Message] = []
        lost: list[DeadLetter] = []
        moved: set[tuple[str, int]] = set()  # partitions of which the rest was asked for before
        end = self._kafka.KafkaError._PARTITION_EOF
        for message in raw:
            code = None if message.error() is None else message.error().code()
            part = (message.topic(), message.partition())
            if part in moved:
                continue
            if code in self._unreadable or (part in self._batches and code in (None, end)):
                lost += self._search(message, is_unreadable=code in self._unreadable)
                moved.add(part)
                continue
            if code == end:
                self._note_end(message)
                continue
            if message.error() is not None:
                lost += self._failed(message)
                continue
            topic, partition, offset = *part, message.offset()
            of, extras = f"{topic}[{partition}]", self._extras(message)
            place = f"{of} at {offset}"
            if len(message) > PACKET_BYTES.most:  # a few bytes of a producer's become a gigabyte, which nobody copies
                lost.append(DeadLetter(f"is of more than {PACKET_BYTES.most:,} bytes", place))
            elif message.value() is not None and self._registry is not None:
                try:
                    messages.append(Message(
                        place=place, values=self._registry.values_of(message.value()), extras=extras, partition=of))
                except UnreadableMessage as error:
                    lost.append(DeadLetter(str(error), place, message.value()[:SAMPLE_BYTES]))
            elif message.value() is not None:
                messages.append(Message(message.value(), place, extras=extras, partition=of))
            elif "kafka_key" in extras:
                messages.append(Message(
                    place=place, values={}, extras=extras, at_ms=time_ms(message), partition=of))
            else:
                lost.append(DeadLetter("has no value: it says that its key is deleted", place, message.key() or b""))
            self._offsets.setdefault(topic, {})[str(partition)] = offset + 1
        if self._is_elsewhere:  # once all of this is taken, for it asks for all that comes behind the positions
            self._assign()
        lost, self._anew = [*self._anew, *lost], []
        return Polled(messages, self.position(), lost)

    def _consume(self, timeout_s: float) -> list[Any]:
        """What has come, as far as a poll may give: large messages are taken few at a time."""
        raw = self._consumer.consume(1, timeout=timeout_s)
        deadline = time.monotonic() + LINGER_S
        while raw and len(raw) < MOST_MESSAGES:
            # By the sizes so far; what only says that a partition ends, or that something is wrong, has none.
            sizes = [len(message) for message in raw if message.error() is None]
            left_s, remaining_bytes = deadline - time.monotonic(), MOST_BYTES - sum(sizes)
            room = remaining_bytes * len(sizes) // sum(sizes) if any(sizes) else len(raw)
            more = remaining_bytes > 0 and self._consumer.consume(
                max(1, min(AT_ONCE, MOST_MESSAGES - len(raw), room)), timeout=max(0.0, left_s))
            if not more:
                break
            raw += more
        return raw

    def _extras(self, message: Any) -> dict[str, Any]:
        """What the config includes beside the content."""
        extras = {
            "kafka_key": message.key, "kafka_topic": message.topic, "kafka_partition": message.partition,
            "kafka_offset": message.offset, "kafka_headers": lambda: headers_text(message),
            "kafka_time": lambda: time_ms(message)}
        return {name: extras[name]() for name in self._config["include"]}

    def _note_end(self, message: Any) -> None:
        """A partition is read to its end: nothing before that is still to come."""
        offsets = self._offsets.get(message.topic(), {})
        part = str(message.partition())
        if part in offsets:
            offsets[part] = max(offsets[part], message.offset())

    def written(self) -> None:
        return  # Kafka keeps what it keeps

    def rest(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        self._consumer.close()
        del self._admin  # its threads end now: the consumer knows this reader, so that neither would go by itself
        if self._registry is not None:
            self._registry.close()

    def _begin(self, position: Position | None, anew: Collection[str] = ()) -> dict[str, dict[str, int]]:
        """The offsets to begin at, by topic and partition: stored ones, else by the config; the first offsets of topics
        that were made anew. A topic without ids may have been made anew with fewer partitions."""
        parts_of = {topic: self._partitions(topic) for topic in self._topics}
        known_of = {topic: at for topic, at in (position or {}).get("offsets", {}).items() if topic not in anew}
        offsets = {
            topic: {part: at for part, at in known_of.get(topic, {}).items() if int(part) in parts_of[topic]}
            for topic in self._topics}
        missing = [
            self._kafka.TopicPartition(topic, partition)
            for topic in self._topics for partition in parts_of[topic] if str(partition) not in offsets[topic]]
        for topic, partition, offset in self._first(missing, start="oldest" if position else self._config["start"]):
            offsets[topic][str(partition)] = offset
        return offsets

    def _first(self, missing: list[Any], *, start: str) -> list[tuple[str, int, int]]:
        """Where partitions begin that have no offset yet."""
        beginnings = []
        timed = {}
        if start not in ("newest", "oldest"):
            at_ms = start_ms(start)
            times = [self._kafka.TopicPartition(part.topic, part.partition, at_ms) for part in missing]
            timed = {(part.topic, part.partition): part.offset
                     for part in self._ask(lambda: self._consumer.offsets_for_times(times, timeout=self.timeout_s))}
        for part in missing:
            low, high = self._marks(part)
            at = timed.get((part.topic, part.partition), -1)
            beginnings.append((part.topic, part.partition, low if start == "oldest" else at if at >= 0 else high))
        return beginnings

    def _partitions(self, topic: str) -> list[int]:
        cluster = self._ask(lambda: self._admin.list_topics(topic, timeout=self.timeout_s))
        require_members(cluster.brokers.values(), usual_port=USUAL_PORT)
        metadata = cluster.topics.get(topic)
        if metadata is None or metadata.error is not None or not metadata.partitions:
            reason = metadata.error.str() if metadata is not None and metadata.error is not None else "it is not there"
            raise SourceRefused(
                f"The topic {topic} cannot be read: {reason}.",
                remedy="Make the topic, or let the user of the config read it; it is tried again by itself.")
        return sorted(metadata.partitions)

    def _look_for_partitions(self) -> None:
        self._look_at_s = time.monotonic() + LOOK_S
        before = self.position()["offsets"]
        if (after := self._begin({"offsets": before})) != before:
            self._offsets = after
            self._assign()
        self._ask_ids()

    def _ask_ids(self) -> None:
        """Ask for the ids of topics, without waiting for them."""
        topics = self._kafka.TopicCollection([topic for topic in self._topics if topic not in self._descriptions])
        if topics.topic_names:
            self._descriptions |= self._admin.describe_topics(topics, request_timeout=self.timeout_s)

    def _made_anew(self, wait_for: Collection[str] = ()) -> list[str]:
        """Topics whose id has changed, by the answers that have come. If the cluster gives no ids, the stored ones
        stay."""
        anew = []
        for topic, answer in list(self._descriptions.items()):
            if topic not in wait_for and not answer.done():
                continue
            del self._descriptions[topic]
            try:
                topic_id = answer.result().topic_id
            except self._kafka.KafkaException:
                continue
            if topic_id is None or not (topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()):
                continue
            if self._ids.setdefault(topic, str(topic_id)) != str(topic_id):
                self._ids[topic] = str(topic_id)
                anew.append(topic)
                self._anew.append(DeadLetter(
                    "the topic was deleted and made anew: what was not read of the old one is gone, and the new one is "
                    "read from its beginning", topic))
        return anew

    def _begin_again(self, anew: Collection[str]) -> None:
        self._batches = UnreadableBatches()  # searched again where they are still there
        self._offsets = self._begin(self.position(), anew)
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign([
            self._kafka.TopicPartition(topic, int(part), self._batches.at((topic, int(part)), offset))
            for topic, parts in self._offsets.items() for part, offset in parts.items()])
        self._is_elsewhere = False

    def _search(self, message: Any, *, is_unreadable: bool) -> list[DeadLetter]:
        """One step of the search for the end of an unreadable batch; its dead letter once that is found."""
        topic, partition = part = (message.topic(), message.partition())
        was, self._is_elsewhere = self._offsets[topic][str(partition)], True
        behind = self._batches.search(
            part, message.offset() if is_unreadable else None, position=was,
            end=lambda: self._marks(self._kafka.TopicPartition(*part))[1])
        if behind is None:
            return []
        self._offsets[topic][str(partition)] = behind
        return [DeadLetter(UNREADABLE.format(behind - was), f"{topic}[{partition}] from {was}")]

    def _failed(self, message: Any) -> list[DeadLetter]:
        """What an error means that came in place of a message: what is gone is told, the rest is tried again."""
        error, codes = message.error(), self._kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE) and message.topic():
            return self._deleted_events(message.topic(), message.partition())
        if error.code() in (codes._ALL_BROKERS_DOWN, codes._TRANSPORT, codes._RESOLVE, codes._TIMED_OUT):
            raise SourceAway(f"No Kafka server answers: {error.str()}.", remedy="It is tried again by itself.")
        raise SourceRefused(f"Kafka refuses: {error.str()}.", remedy="See to the topic and to who may read it.")

    def _deleted_events(self, topic: str, partition: int) -> list[DeadLetter]:
        """Events that Kafka deleted before they were read: told, and read on behind them."""
        part = self._kafka.TopicPartition(topic, partition)
        low, high = self._marks(part)
        was = self._offsets[topic][str(partition)]
        if low <= was <= high:  # told before
            return []
        self._batches.forget((topic, partition))
        self._offsets[topic][str(partition)] = low if was < low else high
        self._is_elsewhere = True
        if was < low:
            reason = f"up to {low - was} events were deleted by Kafka before they were read (its own marks count, too)"
        else:
            reason = f"the topic ends at {high}, before the position {was}: it was made anew, and is read from its end"
        return [DeadLetter(reason, f"{topic}[{partition}] from {was}")]

    def _marks(self, part: Any) -> tuple[int, int]:
        """The first offset that a partition has, and the one behind its last."""
        return self._ask(lambda: self._consumer.get_watermark_offsets(part, timeout=self.timeout_s))

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._kafka.KafkaException as error:
            cause = error.args[0]
            codes = self._kafka.KafkaError
            if cause.code() in (codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE):
                raise SourceAway(f"No Kafka server answers: {self._away or cause.str()}.",
                                 remedy="It is tried again by itself.") from None
            raise SourceRefused(f"Kafka refuses: {cause.str()}.", remedy="See to the config.") from None

    def _on_error(self, error: Any) -> None:
        """What the client says beside messages; on the thread that polls."""
        if error.code() in (self._kafka.KafkaError._ALL_BROKERS_DOWN, self._kafka.KafkaError._AUTHENTICATION):
            self._away = error.str()


class _EndsReader(KafkaReader):
    """A consumer of the last messages of each partition."""

    timeout_s = LOOK_TIMEOUT_S

    def _ask_ids(self) -> None:
        return  # it has read nothing before

    def __init__(self, opening: Opening, count: int) -> None:
        self._count = count
        self._at_end: set[tuple[str, int]] = set()
        super().__init__(opening)

    def newest(self) -> Iterator[Polled]:
        """The last messages of the partitions; where all are empty, the first that come."""
        raw: list[Any] = []
        partitions = sum(map(len, self._offsets.values()))
        yield Polled()
        while not raw or len(self._at_end) < partitions:
            got = self._consume(0.5)
            if not got and self._away:
                raise SourceAway(f"No Kafka server answers: {self._away}")
            raw += [message for message in got if message.error() is None]
            yield Polled(lost=self._polled_of([message for message in got if message.error() is not None]).lost)
        raw.sort(key=lambda message: message.timestamp()[1])
        yield self._polled_of(raw[-self._count:])

    def _first(self, missing: list[Any], *, start: str) -> list[tuple[str, int, int]]:
        events_each = max(1, min(self._count, MOST_LOOKED_AT // max(1, len(missing))))
        watermarks = [(part, self._marks(part)) for part in missing]
        return [(part.topic, part.partition, max(low, high - events_each)) for part, (low, high) in watermarks]

    def _note_end(self, message: Any) -> None:
        self._at_end.add((message.topic(), message.partition()))

    def _search(self, message: Any, *, is_unreadable: bool) -> list[DeadLetter]:
        self._note_end(message)  # nobody waits for what is behind it
        place = f"{message.topic()}[{message.partition()}] from {message.offset()}"
        return [DeadLetter(UNREADABLE.format(MOST_LOOKED_AT), place)]
