"""Kafka: events as JSON messages of a topic, each exactly once for whoever reads committed messages alone.

A transaction holds a batch's messages and the sink's last block, as the committed offset of a group of the sink's name:
Kafka keeps only the newest offset of each group. The transactional id is the sink's name, too: a new writer aborts the
open transaction of the former one, and fences it.

A group without members loses its offsets if nothing is committed for the cluster's retention time (a week by default):
an idle sink commits its offset again before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from scheduler.contracts.offsets import Offset
from scheduler.model.bounds import CLUSTER_TOPICS
from workers.library.arrow_types import values_of_column
from workers.library.reach import require_allowed, require_members

from .contract import Batch, Batching, Overtaken, Refuse, RefusedRow, SinkAway, SinkOpening, SinkRefused
from .delta import number_of, offset_of
from .rows import as_key, chosen, json_lines

TIMEOUT_S = 20.0  # of a question to the cluster, and of the end of a transaction
TRANSACTION_MS = 60_000  # after which Kafka gives up a transaction that is not ended
KEEP_S = 6 * 3600.0  # after so long without a commit the sink's place is committed again: clusters keep it for days
FULL_S = 0.05  # where the client's own queue is full
USUAL_PORT = 9092


def open_kafka(opening: SinkOpening) -> KafkaWriter:
    """Shut out whoever wrote for the sink before, and ask how far it has come."""
    for server in opening.config["servers"]:
        require_allowed(server, usual_port=USUAL_PORT, writes=True)
    return KafkaWriter(opening)


class KafkaWriter:
    """A producer with transactions, and a consumer that reads nothing but the sink's place."""

    def __init__(self, opening: SinkOpening) -> None:
        import confluent_kafka

        self._kafka, self._config = confluent_kafka, opening.config
        self._topic, self._key = opening.config["topic"], opening.config["key"]
        self._names = chosen(opening.columns, opening.config["columns"])
        self._why, self._producer = "", None
        self.batching = Batching()
        options = client_options(opening, self._on_error)
        self._consumer = confluent_kafka.Consumer({
            **options, "group.id": opening.sink, "enable.auto.commit": False, "isolation.level": "read_committed",
            "receive.message.max.bytes": CLUSTER_TOPICS.most, "fetch.max.bytes": 1 << 20})  # it reads no messages
        try:
            self._require_topic()
            self._producer = confluent_kafka.Producer({
                **options, "transactional.id": opening.sink, "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 5, "compression.type": "lz4"})
            self._ask(lambda: self._producer.init_transactions(TIMEOUT_S))
            self._place = self._committed()
            self._committed_s = -KEEP_S  # how old that is, is not told
        except BaseException:
            self.close()
            raise

    def position(self) -> Offset | None:
        return self._place

    def write(self, batch: Batch, refuse: Refuse) -> None:
        values = list(json_lines(batch.rows.select(self._names)))
        keys = self._keys(batch)
        refused: dict[int, RefusedRow] = {}
        while (too_much := self._refusals_of(batch, keys, values, refused)):
            refused.update(too_much)
        if refused:
            refuse(sorted(refused.values(), key=lambda row: row.row))
        self._ask(lambda: self._producer.commit_transaction(TIMEOUT_S))
        if not batch.again:
            self._place, self._committed_s = batch.until, monotonic()

    def rest(self) -> None:
        self._producer.poll(0)
        if self._place is not None and monotonic() - self._committed_s >= KEEP_S:
            self._ask(self._producer.begin_transaction)
            self._send_place(self._place)
            self._ask(lambda: self._producer.commit_transaction(TIMEOUT_S))
            self._committed_s = monotonic()

    def close(self) -> None:
        with suppress(Exception):
            self._producer.purge()
        self._producer = None  # its threads end now: it knows this writer, so that neither would go by itself
        self._consumer.close()

    # -- one batch -----------------------------------------------------------------------------------------------------

    def _keys(self, batch: Batch) -> Sequence[bytes | None]:
        if self._key is None:
            return [None] * batch.rows.num_rows
        return [None if value is None else as_key(value) for value in values_of_column(batch.rows.column(self._key))]

    def _refusals_of(
        self, batch: Batch, keys: Sequence[bytes | None], values: Sequence[bytes], left_out: Mapping[int, RefusedRow]
    ) -> dict[int, RefusedRow]:
        """A transaction that is ready to be committed; or what Kafka does not take of it, and it was given up."""
        producer, topic = self._producer, self._topic
        failed: dict[int, Any] = {}
        self._ask(producer.begin_transaction)
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            if row in left_out:
                continue

            def delivered(error: Any, _message: Any, row: int = row) -> None:
                if error is not None:
                    failed[row] = error

            self._produce(topic, key, value, delivered, failed, row)
        if not batch.again:
            self._send_place(batch.until)
        producer.flush(TIMEOUT_S)
        refused = {row: RefusedRow(row, f"is not taken by Kafka: {error.str()}") for row, error in failed.items()
                   if error.code() in self._too_much}
        if refused:
            self._ask(lambda: producer.abort_transaction(TIMEOUT_S))
        return refused

    def _send_place(self, until: Offset) -> None:
        """Put the sink's last block into the transaction."""
        partition = self._kafka.TopicPartition(self._topic, 0, number_of(until))
        self._ask(lambda: self._producer.send_offsets_to_transaction(
            [partition], self._consumer.consumer_group_metadata(), TIMEOUT_S))

    def _produce(
        self, topic: str, key: bytes | None, value: bytes, delivered: Any, failed: dict[int, Any], row: int
    ) -> None:
        """Hand one message to the client, once it has room."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(FULL_S)
            except self._kafka.KafkaException as error:
                if error.args[0].code() not in self._too_much:
                    raise self._explained(error.args[0]) from None
                failed[row] = error.args[0]
                return

    @property
    def _too_much(self) -> frozenset[int]:
        codes = self._kafka.KafkaError
        return frozenset({codes.MSG_SIZE_TOO_LARGE, codes.INVALID_RECORD})

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def _require_topic(self) -> None:
        """All topics are asked for: a cluster may make one that is asked for by name."""
        cluster = self._ask(lambda: self._consumer.list_topics(timeout=TIMEOUT_S))
        require_members(cluster.brokers.values(), usual_port=USUAL_PORT, writes=True)
        topics = cluster.topics
        if self._topic not in topics:
            raise SinkRefused(
                f"The topic {self._topic} is not there.", remedy="Make it, or let the user of the config see it.")

    def _committed(self) -> Offset | None:
        partition = self._kafka.TopicPartition(self._topic, 0)
        [committed] = self._ask(lambda: self._consumer.committed([partition], timeout=TIMEOUT_S))
        if committed.error is not None:
            raise self._explained(committed.error)
        return offset_of(committed.offset) if committed.offset >= 0 else None

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._kafka.KafkaException as error:
            raise self._explained(error.args[0]) from None

    def _explained(self, error: Any) -> Exception:
        codes = self._kafka.KafkaError
        if error.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):
            return Overtaken()
        if error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED) or "uthentication" in self._why:
            return SinkRefused("Kafka refuses the user.", remedy="See to username and password.")
        if error.code() in (
            codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED, codes.CLUSTER_AUTHORIZATION_FAILED,
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ):
            return SinkRefused(
                f"Kafka does not let the user write {self._topic}: {error.str()}.",
                remedy="Allow write on the topic, write on transactional ids and read on groups that begin with weir-.")
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes.INVALID_CONFIG):
            return SinkRefused(f"The topic {self._topic} cannot be written: {error.str()}.", remedy="See to the topic.")
        return SinkAway(f"Kafka does not answer: {error.name()}.", remedy="It is tried again by itself.")

    def _on_error(self, error: Any) -> None:
        """What the client says beside answers."""
        if error.code() in (self._kafka.KafkaError._ALL_BROKERS_DOWN, self._kafka.KafkaError._AUTHENTICATION):
            self._why = error.str()


def client_options(opening: SinkOpening, on_error: Any) -> dict[str, Any]:
    """The options with which a client reaches the cluster."""
    config = opening.config
    options = {
        "bootstrap.servers": ",".join(config["servers"]), "client.id": f"weir-{opening.task[:12]}",
        "security.protocol": config["security"], "error_cb": on_error, "log_level": 0,
        "allow.auto.create.topics": False, "topic.metadata.refresh.interval.ms": 300_000}
    if config["security"].startswith("sasl"):
        options |= {"sasl.mechanism": config["mechanism"], "sasl.username": config["username"] or "",
                    "sasl.password": config["password"] or ""}
    if config["ca"]:
        options["ssl.ca.pem"] = config["ca"]
    return options
