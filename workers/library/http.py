"""A sink over HTTP: events posted to an address, with a token that nobody but the slot knows.

An engineer's document decides where a node sends data, so the operator names the hosts that it may be sent to
(``WEIR_HTTP_HOSTS``); by default there are none. Redirects are not followed: a token goes where it was meant for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scheduler.model.task_types import Parameter, TaskType

from .columns import same_columns
from .config import InvalidConfig, settings
from .outbound import Line, Unanswered, WrongAddress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

HTTP_POST = TaskType(
    name="http_post", kind="sink", family="sink",
    doc="Posts events as JSON lines to an address, in order and each at least once; a batch that is posted again has "
        "the same Idempotency-Key.",
    build="workers.library.http:http_post", effects=("network",),
    parameters=(
        Parameter("url", "string", "The address to post to; the operator must allow its host (WEIR_HTTP_HOSTS).",
                  required=True, pattern=r"https?://[^\s/?#@]+(/\S*)?"),
        Parameter("token", "string", "Sent as “Authorization: Bearer …”.", secret=True),
        Parameter("events", "integer", "Most events in one request.", default=500, minimum=1, maximum=10_000),
        Parameter("patience", "number", "How long to wait for an answer.", default=10, minimum=0.1, maximum=120,
                  unit="s"),
    ),
    cost_us=40,
)
TASK_TYPES = (HTTP_POST,)


USUAL_PORTS = {"http": 80, "https": 443}
LARGEST_ANSWER_BYTES = 64 * 1024


class NotPosted(Exception):
    """The other side did not take the events; the query tries them again."""


def http_post(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they are, once they are posted."""
    values = settings(HTTP_POST, config)
    require_allowed(values["url"])
    url, token, most, patience_s = values["url"], values["token"], values["events"], values["patience"]

    def posted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            for start in range(0, len(rows), most):
                post_lines(rows[start:start + most], url=url, token=token, patience_s=patience_s)
            yield batch

    return inputs.mapInArrow(posted, inputs.schema)


def http_post_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow the host."""
    require_allowed(settings(HTTP_POST, config)["url"])


http_post_columns = same_columns


def allowed_hosts(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """The hosts that tasks may reach, in lower case, with a port where one is named: without, the usual ports alone."""
    env = os.environ if environment is None else environment
    return frozenset(host.strip().lower() for host in env.get("WEIR_HTTP_HOSTS", "").split(",") if host.strip())


def post_lines(rows: Sequence[Mapping[str, Any]], *, url: str, token: str | None, patience_s: float) -> None:
    """Post events as JSON lines; ``NotPosted`` unless the answer is a success."""
    body = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": hashlib.sha256(body).hexdigest()}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    host, line = urlsplit(url).netloc, line_to(url)
    try:  # of the answer a few words at most, and no endless ones: nothing is made of them
        answer = line.ask("POST", target_of(url), headers=headers, body=body, deadline_s=patience_s,
                          most_bytes=LARGEST_ANSWER_BYTES)
    except (Unanswered, WrongAddress) as error:
        raise NotPosted(f"{host} did not take {len(rows)} events: {error}.") from None
    finally:
        line.close()
    if not 200 <= answer.status < 300:
        raise NotPosted(f"{host} answered {answer.status} to {len(rows)} events.")


def line_to(url: str) -> Line:
    """A connection to the host of an address that is allowed."""
    parts = urlsplit(url)
    return Line(parts.scheme, parts.hostname or "", parts.port or USUAL_PORTS[parts.scheme])


def target_of(url: str) -> str:
    """The request target of an address: its path and query."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def require_allowed(url: str) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow the address's host and port."""
    parts, allowed = urlsplit(url), allowed_hosts()
    try:
        port = parts.port or USUAL_PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise InvalidConfig("The address cannot be read.", remedy="Write http://host:port/path.") from None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    if f"{host}:{port}" not in allowed and (host not in allowed or port not in USUAL_PORTS.values()):
        raise InvalidConfig(
            f"Tasks may not reach {parts.netloc}.",
            remedy=f"Ask the operator to name {host}:{port} in WEIR_HTTP_HOSTS.", host=parts.netloc)
