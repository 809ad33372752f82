"""Other systems' brokers for a measurement, on this machine: mosquitto, and librdkafka's mock of a Kafka cluster.

The mock speaks the real protocol over real sockets; it keeps no log on disk and knows no retention.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.launcher.broker import free_port
from workers.processes import spawn, stop

from .services import NotInstalled, until_open

MOCK_OF_KAFKA = """
import sys
from confluent_kafka import Producer
client = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
metadata = client.list_topics(timeout=10)
print(",".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()), flush=True)
sys.stdin.read()
"""


@contextmanager
def kafka_cluster() -> Iterator[list[str]]:
    """The servers of a cluster in a process of its own."""
    process = spawn([sys.executable, "-c", MOCK_OF_KAFKA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
    try:
        yield process.stdout.readline().decode().strip().split(",")
    finally:
        stop(process, timeout_s=1, sig=signal.SIGKILL)


@contextmanager
def mqtt_broker() -> Iterator[int]:
    """The port of a broker on the loopback address that keeps sessions.

    Raises
    ------
    NotInstalled
        mosquitto is not there.
    """
    program = next((path for name in ("mosquitto", "/usr/sbin/mosquitto") if (path := shutil.which(name))), None)
    if program is None:
        raise NotInstalled("This needs mosquitto: apt install mosquitto")
    folder, port = Path(tempfile.mkdtemp(prefix="weir-mqtt-")), free_port()
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 1000\n"
        + ("user root\n" if os.geteuid() == 0 else ""))
    process = spawn([program, "-c", str(folder / "mosquitto.conf")], stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL)
    try:
        until_open(port)
        yield port
    finally:
        stop(process, timeout_s=2)
        shutil.rmtree(folder, ignore_errors=True)


def send_kafka(servers: list[str], topic: str, bodies: list[bytes]) -> None:
    """Bring messages to the first partition of a topic; the mock makes the topic."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": ",".join(servers), "log_level": 0, "linger.ms": 20})
    producer.list_topics(topic, timeout=10)
    for body in bodies:
        while True:
            try:
                producer.produce(topic, body, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(60):
        raise RuntimeError("the mock of Kafka did not take all messages")


def send_mqtt(port: int, topic: str, bodies: list[bytes]) -> None:
    """Publish messages with QoS 1 and wait until the broker has them."""
    from paho.mqtt import client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(1000)
    client.connect("127.0.0.1", port)
    client.loop_start()
    sent = [client.publish(topic, body, qos=1) for body in bodies]
    deadline = time.monotonic() + 120
    for message in sent:
        message.wait_for_publish(max(0.1, deadline - time.monotonic()))
    client.disconnect()
    client.loop_stop()
