"""MQTT 3.1.1 and 5: events published as JSON, in order, each at least once.

A batch is done when the other broker has acknowledged all of it (QoS 1 and 2). It keeps nothing by which a batch could
be told that comes again, so that what was under way when a host died is published once more.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from scheduler.contracts.offsets import Offset
from workers.engine.mqtt_packets import bound_packets
from workers.library.live_sinks import PLACEHOLDER
from workers.library.reach import host_and_port, require_allowed

from .contract import Batch, Batching, Refuse, RefusedRow, SinkAway, SinkOpening, SinkRefused
from .rows import chosen, json_lines

CONNECT_S = 10.0
PATIENCE_S = 20.0  # for the acknowledgement of what is under way
KEEP_ALIVE_S = 30
UNDER_WAY = 20  # messages that are published and not acknowledged: brokers commonly hold no more of a client at a time
MOST_EVENTS = 500  # of a batch: what comes again at most
TOPIC_BYTES = 65_535


def open_mqtt(opening: SinkOpening) -> MqttWriter:
    """Connect."""
    config = opening.config
    require_allowed(config["server"], usual_port=8883 if config["tls"] else 1883, writes=True)
    return MqttWriter(opening)


class MqttWriter:
    """A client that publishes, driven by the thread that writes."""

    def __init__(self, opening: SinkOpening) -> None:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        self._mqtt, self._config = mqtt, opening.config
        self._names = chosen(opening.columns, opening.config["columns"])
        self._topic = opening.config["topic"]
        self._fields = PLACEHOLDER.findall(self._topic)
        self.batching = Batching(most_events=MOST_EVENTS)
        self._connected: Any = None
        self._under_way: set[int] = set()
        self._acknowledged_ids: set[int] = set()
        self._refusal: str | None = None
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=f"weir-{opening.task[:10]}-{opening.sink[-7:]}",
            protocol=mqtt.MQTTv5 if opening.config["version"] == "5" else mqtt.MQTTv311)
        self._client.connect_timeout = CONNECT_S  # for TCP, and once more for all of TLS's handshake
        bound_packets(self._client)
        self._client.max_inflight_messages_set(UNDER_WAY)
        self._client.on_connect = self._on_connect
        self._client.on_publish = self._on_publish
        if opening.config["tls"]:
            self._client.tls_set_context(ssl.create_default_context(cadata=opening.config["ca"] or None))
        if opening.config["username"]:
            self._client.username_pw_set(opening.config["username"], opening.config["password"])
        self._connect()

    def position(self) -> Offset | None:
        return None

    def write(self, batch: Batch, refuse: Refuse) -> None:
        topics = self._topics(batch)
        refused = [RefusedRow(row, f"has no topic: {topic.reason}")
                   for row, topic in enumerate(topics) if isinstance(topic, _NoTopic)]
        if refused:
            refuse(refused)
        values = json_lines(batch.rows.select(self._names))
        for topic, value in zip(topics, values, strict=True):
            if not isinstance(topic, _NoTopic):
                self._publish(topic, value)
        self._wait(lambda: not self._under_way)

    def rest(self) -> None:
        self._turn(0.0)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop(0.2)

    def _topics(self, batch: Batch) -> Sequence[str | _NoTopic]:
        """The topic of each event."""
        if not self._fields:
            return [self._topic] * batch.rows.num_rows
        columns = {name: batch.rows.column(name) for name in self._fields}
        return [self._topic_of(columns, row) for row in range(batch.rows.num_rows)]

    def _topic_of(self, columns: Mapping[str, pa.ChunkedArray], row: int) -> str | _NoTopic:
        texts = {}
        for name, column in columns.items():
            try:
                value = column[row].as_py()
            except (ValueError, OverflowError, LookupError):  # text that is no UTF-8; a time that Python has none for
                return _NoTopic(f"{name} cannot be read as text, and must be")
            texts[name] = text = "" if value is None else str(value)
            if not text or any(sign in text for sign in "+#/\0"):
                return _NoTopic(f"{name} is {text[:50]!r}, and must be there and hold no /, + or #")
        topic = PLACEHOLDER.sub(lambda match: texts[match[1]], self._topic)
        if len(topic.encode()) > TOPIC_BYTES:
            return _NoTopic("it would be too long")
        return topic

    def _publish(self, topic: str, value: bytes) -> None:
        self._wait(lambda: len(self._under_way) < UNDER_WAY)
        info = self._client.publish(topic, value, qos=self._config["qos"], retain=self._config["retain"])
        if info.rc != self._mqtt.MQTT_ERR_SUCCESS:
            raise self._away("closed the connection")
        if info.mid in self._acknowledged_ids:
            self._acknowledged_ids.remove(info.mid)
        else:
            self._under_way.add(info.mid)

    # -- the connection ------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        host, port = host_and_port(self._config["server"], usual_port=8883 if self._config["tls"] else 1883)
        try:
            self._client.connect(host, port, keepalive=KEEP_ALIVE_S)
        except ssl.SSLError as error:
            raise SinkRefused(
                f"The MQTT server is not trusted: {error.reason or 'TLS failed'}.",
                remedy="Name its authority's certificate as “ca”.") from None
        except (OSError, ValueError) as error:
            raise self._away(f"does not take the connection: {type(error).__name__}") from None
        deadline = time.monotonic() + CONNECT_S
        while self._connected is None:
            if time.monotonic() > deadline:
                raise self._away("does not answer")
            self._turn(0.1)
        if self._connected.is_failure:
            with suppress(Exception):
                self._client.disconnect()
            raise SinkRefused(
                f"The MQTT server refuses the connection: {self._connected}.",
                remedy="See to username and password; it is tried again by itself.")

    def _wait(self, is_so: Any) -> None:
        """Drive the client until something is so; acknowledgements have to come meanwhile."""
        waiting, deadline = len(self._under_way), time.monotonic() + PATIENCE_S
        while not is_so():
            self._turn(0.1)
            if self._refusal is not None:
                raise SinkRefused(
                    f"The MQTT server does not take what is published: {self._refusal}.",
                    remedy="Let the user of the config publish there; it is tried again by itself.")
            if len(self._under_way) < waiting:
                waiting, deadline = len(self._under_way), time.monotonic() + PATIENCE_S
            if time.monotonic() > deadline:
                raise self._away("acknowledges nothing")

    def _turn(self, timeout_s: float) -> None:
        code = self._client.loop(timeout_s)
        if code != self._mqtt.MQTT_ERR_SUCCESS and (self._connected is None or not self._connected.is_failure):
            raise self._away(f"closed the connection: {self._mqtt.error_string(code)}".rstrip("."))

    def _away(self, problem: str) -> SinkAway:
        return SinkAway(f"The MQTT server {problem}.", remedy="It is tried again by itself.")

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._connected = reason

    def _on_publish(self, _client: Any, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
        if mid in self._under_way:
            self._under_way.remove(mid)
        else:
            self._acknowledged_ids.add(mid)


class _NoTopic:
    """Why an event has no topic."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
