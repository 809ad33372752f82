"""Options of Kafka's client for a source, and the texts of its config in Kafka's terms."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any

from scheduler.model.bounds import CLUSTER_BYTES

from .contract import Opening

# One answer has a batch, or several that are together no larger than this: a batch of 1 MB may be a gigabyte once it
# is decompressed, and a client decompresses all of an answer before anybody can look at it.
ANSWER_BYTES = 1 << 20
_HEADERS = methodcaller("headers")


def client_options(opening: Opening, on_error: Any) -> dict[str, Any]:
    """Of a consumer that joins no group's work and commits nothing; ``on_error`` hears what is no message's error."""
    return server_options(opening) | {
        "group.id": f"weir-{opening.task}", "enable.auto.commit": False, "enable.partition.eof": True,
        "auto.offset.reset": "error", "isolation.level": "read_committed", "error_cb": on_error,
        "allow.auto.create.topics": False, "queued.max.messages.kbytes": 8192, "fetch.max.bytes": ANSWER_BYTES,
        "fetch.wait.max.ms": 500}


def asking_options(opening: Opening) -> dict[str, Any]:
    """Of a client that asks for partitions and reads nothing. What it is told becomes objects of Python, each a hundred
    times as large, in a call that nothing can interrupt."""
    return server_options(opening) | {"receive.message.max.bytes": CLUSTER_BYTES.most}


def server_options(opening: Opening) -> dict[str, Any]:
    """The options with the servers' addresses and the login."""
    config = opening.config
    options = {
        "bootstrap.servers": ",".join(config["servers"]), "client.id": f"weir-{opening.task[:12]}",
        "security.protocol": config["security"], "log_level": 0, "topic.metadata.refresh.interval.ms": 300_000}
    if config["security"].startswith("sasl"):
        options |= {"sasl.mechanism": config["mechanism"], "sasl.username": config["username"] or "",
                    "sasl.password": config["password"] or ""}
    if config["ca"]:
        options["ssl.ca.pem"] = config["ca"]
    if config["certificate"]:
        options |= {"ssl.certificate.pem": config["certificate"], "ssl.key.pem": config["private_key"]}
    return options


def headers_text(message: Any) -> str | None:
    """A message's headers as a JSON list of pairs: a name may come more than once.

    None where a name is not UTF-8, which whoever publishes may write: the client then gives a pair without a name,
    which ends the process that looks at it, and leaves an error behind. ``methodcaller`` always looks for that; a call
    that Python has made quicker does not.
    """
    try:
        headers = _HEADERS(message)
    except SystemError:
        return None
    return json.dumps([
        [name, None if value is None else value.decode(errors="backslashreplace")] for name, value in headers or ()])


def start_ms(start: str) -> int:
    """A time of the config in ms since the epoch; one without a zone is UTC."""
    time_ = datetime.fromisoformat(start)
    return int((time_ if time_.tzinfo else time_.replace(tzinfo=UTC)).timestamp() * 1000)


def time_ms(message: Any) -> int | None:
    """The time of a message, in ms since the epoch; None where Kafka does not know."""
    kind, at_ms = message.timestamp()
    return at_ms if kind else None
