"""MQTT 3.1.1 and 5: topics by a session that the other broker keeps, so that what comes while Weir is away waits there.

With QoS 1 and 2 a message is acknowledged when its block is written: none is lost, and one whose acknowledgement was
lost comes again. QoS 2 is asked for as QoS 1: with 2 a client answers before it hands a message over, and one that dies
between loses it, for the other broker does not send it again.

A broker sends retained messages at every subscription, and a broker that lost its sessions is subscribed to again. So
the position holds a digest of the last message of each topic: a retained message with such a digest is not taken twice.
"""

from __future__ import annotations

import base64
import hashlib
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scheduler.model.bounds import DEAD_LETTERS, PACKET_BYTES
from workers.engine.mqtt_packets import CutPacket, bound_packets
from workers.library.reach import host_and_port, require_allowed

from .certificates import tls_context
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
from .formats import SAMPLE_BYTES

CONNECT_S = 10.0
KEEP_ALIVE_S = 30
LOOK_CONNECT_S = 4.0  # of somebody who waits
TAKEN_FROM_OTHERS = re.compile(r"\$share/[^/]+/|\$queue/|\$exclusive/")  # before a topic that others then do not get
SESSION_S = 7 * 24 * 3600  # how long the other broker keeps the session of an MQTT 5 client that is away
RECEIVE_MOST = 1_000  # unacknowledged messages, as far as the other broker allows
ALMOST = 16  # brokers commonly hold back after 20 unacknowledged ones
SILENCE_S = 0.001  # after so many, this is taken for holding back
REMEMBERED_TOPICS = 2_000  # whose last messages are known again, those that spoke last
REMEMBER_S = 1.0  # between two positions that hold them


def open_mqtt(opening: Opening) -> MqttReader:
    """Connect, go on with the session or subscribe, and read."""
    config = opening.config
    require_allowed(config["server"], usual_port=8883 if config["tls"] else 1883)
    return MqttReader(opening)


def look_at_mqtt(opening: Opening, count: int) -> Iterator[Polled]:
    """Messages that the other broker retains, and those that come meanwhile: to a client of its own, in a session that
    ends with it, with QoS 0, so that nothing is kept for it and nobody else gets less."""
    config = opening.config
    require_allowed(config["server"], usual_port=8883 if config["tls"] else 1883)
    topics = [TAKEN_FROM_OTHERS.sub("", topic, count=1) for topic in config["topics"]]
    reader = _PassingReader(replace(opening, config={**config, "topics": topics, "qos": 0}))
    try:
        yield Polled()
        came = 0
        while came < count:
            polled = reader.poll(0.5)
            came += len(polled.messages)
            yield polled
    finally:
        reader.close(for_good=False)


class LastMessages:
    """By topic, the last message that was retained and the last one that came as it was published: eight characters of
    a digest each, of the topics that spoke last."""

    def __init__(self) -> None:
        self._by_topic: dict[str, str] = {}
        self.has_changed = False  # since the position was asked for

    @classmethod
    def of(cls, position: Position | None) -> LastMessages:
        """The last messages that a position holds."""
        messages = cls()
        messages._by_topic = dict((position or {}).get("last", {}))
        return messages

    def position(self) -> Position:
        """The same as a position."""
        self.has_changed = False
        return {"last": dict(self._by_topic)}

    def is_new(self, topic: str, body: bytes, *, is_retained: bool) -> bool:
        """Note a message; False for a retained one that was the last of its topic already."""
        name, text = _digest(topic.encode()), _digest(body)
        before = self._by_topic.pop(name, " " * 16)
        retained, live = before[:8], before[8:]
        is_known = is_retained and text in (retained, live)
        if not is_known:
            retained, live = (text, live) if is_retained else (retained, text)
        self._by_topic[name] = retained + live  # at the end: it spoke last
        self.has_changed = self.has_changed or retained + live != before
        if len(self._by_topic) > REMEMBERED_TOPICS:
            del self._by_topic[next(iter(self._by_topic))]
        return not is_known


def _digest(text: bytes) -> str:
    return base64.b64encode(hashlib.blake2b(text, digest_size=6).digest()).decode()


class MqttReader:
    """A client with a session of its own, driven by the thread that polls."""

    session_s = SESSION_S  # 0: it ends with the connection, and none before is gone on with
    connect_s = CONNECT_S

    def __init__(self, opening: Opening) -> None:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        self._mqtt, self._config = mqtt, opening.config
        self._is_5 = opening.config["version"] == "5"
        self._id = f"weir-{opening.task[:18]}"
        self._connected: Any = None
        self._subscribed: list[Any] | None = None
        self._refused_topics: list[str] = []
        self._messages: list[tuple[Message, int, int]] = []
        self._got_bytes = 0
        self._dead_letters: list[DeadLetter] = []
        self._unacknowledged: list[tuple[int, int]] = []
        self._last_messages = LastMessages.of(opening.position)
        self._remember_s = 0.0
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=self._id, manual_ack=True,
            protocol=mqtt.MQTTv5 if self._is_5 else mqtt.MQTTv311,
            **({} if self._is_5 else {"clean_session": not self.session_s}))
        self._client.connect_timeout = self.connect_s  # for TCP, and once more for all of TLS's handshake
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        bound_packets(self._client, most_bytes=PACKET_BYTES.most)
        self._secure(self._client)
        try:
            self._connect()
            self._subscribe()
        except BaseException:
            self._client.disconnect()
            raise

    def position(self) -> None:
        return None

    @property
    def _has_plenty(self) -> bool:
        """Whether what came, and was not taken yet, is as much as a poll gives."""
        return (len(self._messages) >= MOST_MESSAGES or self._got_bytes >= MOST_BYTES
                or len(self._dead_letters) >= DEAD_LETTERS.most)

    def poll(self, timeout_s: float) -> Polled:
        deadline = time.monotonic() + timeout_s
        while not self._messages and not self._dead_letters and (remaining_s := deadline - time.monotonic()) > 0:
            self._turn(remaining_s)
        if self._messages:
            deadline = time.monotonic() + LINGER_S
            while not self._has_plenty:
                remaining_s, before = deadline - time.monotonic(), len(self._messages)
                if remaining_s <= 0:
                    break
                may_be_held_back = bool(self._config["qos"]) and before >= ALMOST
                self._turn(min(remaining_s, SILENCE_S) if may_be_held_back else remaining_s)
                if may_be_held_back and len(self._messages) == before:
                    break
        got, self._messages, self._got_bytes = self._messages, [], 0
        self._unacknowledged += [(mid, qos) for _, mid, qos in got if qos]
        lost, self._dead_letters = self._dead_letters, []
        now_s = time.monotonic()
        position = None
        if self._last_messages.has_changed and now_s >= self._remember_s:
            self._remember_s = now_s + REMEMBER_S
            position = self._last_messages.position()
        return Polled([message for message, _, _ in got], position, lost)

    def written(self) -> None:
        for mid, qos in self._unacknowledged:
            self._client.ack(mid, qos)
        self._unacknowledged = []
        self._turn(0)

    def rest(self, timeout_s: float) -> None:
        """With QoS 1 and 2 what is not acknowledged bounds what comes, as long as the other broker keeps to that and
        sends nothing with QoS 0; beyond a poll's worth, and with QoS 0, nothing is read meanwhile."""
        if self._config["qos"] and not self._has_plenty:
            self._turn(timeout_s)
            time.sleep(timeout_s / 10)
        else:
            self._client.loop_misc()
            time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        if for_good:
            self._end_session()
        else:
            self._client.disconnect()
            self._client.loop(0.2)

    # -- the connection ------------------------------------------------------------------------------------------------

    def _secure(self, client: Any) -> None:
        config = self._config
        if config["tls"]:
            client.tls_set_context(tls_context(
                ca=config["ca"], certificate=config["certificate"], private_key=config["private_key"]))
        if config["username"]:
            client.username_pw_set(config["username"], config["password"])

    def _connect(self) -> None:
        host, port = host_and_port(self._config["server"], usual_port=8883 if self._config["tls"] else 1883)
        options: dict[str, Any] = {}
        if self._is_5:
            options = {"clean_start": not self.session_s, "properties": self._properties(
                "CONNECT", SessionExpiryInterval=self.session_s, ReceiveMaximum=RECEIVE_MOST)}
        try:
            self._client.connect(host, port, keepalive=KEEP_ALIVE_S, **options)
        except ssl.SSLError as error:
            raise SourceRefused(
                f"{self._config['server']} is not trusted: {error.reason or 'TLS failed'}.",
                remedy="Name its authority's certificate as “ca”.") from None
        except (OSError, ValueError) as error:
            raise SourceAway(
                f"{self._config['server']} does not take the connection: {type(error).__name__}.",
                remedy="It is tried again by itself.") from None
        self._wait(lambda: self._connected is not None, "does not answer")
        if self._connected.is_failure:
            raise SourceRefused(
                f"{self._config['server']} refuses the connection: {self._connected}.",
                remedy="See to username and password; it is tried again by itself.")

    def _subscribe(self) -> None:
        """Subscribe, unless the session was kept: then what is retained does not come again at all."""
        if self._session_present:
            return
        self._client.subscribe([(topic, min(1, self._config["qos"])) for topic in self._config["topics"]])
        # What is retained may come before the confirmation, and more of it than may be held.
        self._wait(lambda: self._subscribed is not None or self._has_plenty, "does not confirm the subscription")

    def _wait(self, is_so: Any, problem: str) -> None:
        deadline = time.monotonic() + self.connect_s
        while not is_so():
            if time.monotonic() > deadline or (self._connected is None and self._has_plenty):
                raise SourceAway(f"{self._config['server']} {problem}.", remedy="It is tried again by itself.")
            self._turn(0.1)

    def _turn(self, timeout_s: float) -> None:
        code = self._client.loop(min(timeout_s, 1.0))
        if code != self._mqtt.MQTT_ERR_SUCCESS and (self._connected is None or not self._connected.is_failure):
            raise SourceAway(
                f"{self._config['server']} closed the connection: {self._mqtt.error_string(code)}",
                remedy="It is tried again by itself.")
        if self._refused_topics:
            raise SourceRefused(
                f"{self._config['server']} does not let {', '.join(self._refused_topics)} be read.",
                remedy="Let the user of the config read it; it is tried again by itself.")

    def _on_connect(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        self._session_present, self._connected = flags.session_present, reason

    def _on_subscribe(self, _client: Any, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
        self._subscribed = reasons
        self._refused_topics = [
            topic for topic, code in zip(self._config["topics"], reasons, strict=False) if code.is_failure]

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        topic = message._topic.decode(errors="replace")  # what is no text would end the source, and come again
        if isinstance(self._client._in_packet["packet"], CutPacket):
            self._dead_letters.append(DeadLetter(
                f"is of more than {PACKET_BYTES.most:,} bytes", topic, bytes(message.payload[:SAMPLE_BYTES])))
            if message.qos:
                self._unacknowledged.append((message.mid, message.qos))
            return
        body = bytes(message.payload)
        if not self._last_messages.is_new(topic, body, is_retained=message.retain):
            if message.qos:
                self._client.ack(message.mid, message.qos)
            return
        facts = {"mqtt_topic": topic, "mqtt_retained": bool(message.retain)}
        extras = {name: facts[name] for name in self._config["include"]}
        self._got_bytes += len(body) + len(message._topic)
        self._messages.append((Message(body, topic, extras=extras or None), message.mid, message.qos))

    def _end_session(self) -> None:
        """Let the other broker forget the session and what waits in it."""
        if self._is_5:
            self._client.disconnect(properties=self._properties("DISCONNECT", SessionExpiryInterval=0))
            self._client.loop(0.2)
            return
        self._client.disconnect()
        self._client.loop(0.2)
        clean = self._mqtt.Client(
            self._client._callback_api_version, client_id=self._id, clean_session=True, protocol=self._mqtt.MQTTv311)
        bound_packets(clean)
        self._secure(clean)
        host, port = host_and_port(self._config["server"], usual_port=8883 if self._config["tls"] else 1883)
        clean.connect(host, port)
        clean.loop(0.5)
        clean.disconnect()
        clean.loop(0.2)

    def _properties(self, packet: str, **values: int) -> Any:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(getattr(PacketTypes, packet))
        for name, value in values.items():
            setattr(properties, name, value)
        return properties


class _PassingReader(MqttReader):
    """A client without a session: the other broker forgets it when it disconnects."""

    session_s = 0
    connect_s = LOOK_CONNECT_S
