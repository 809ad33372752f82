"""Objects over HTTP: for each event the one that its values name, over connections that are kept open.

As with the sink over HTTP, the operator names the hosts (``WEIR_HTTP_HOSTS``), and redirects are not followed.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM
from .config import InvalidConfig, settings
from .http import require_allowed
from .outside import ON_ERROR, PATIENCE, NotAnswered, asked
from .spark_text import columns_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HTTP_GET = TaskType(
    name="http_get", kind="transform", family="io",
    doc="Downloads the object that an event names, and adds it, its size and the answer's status.",
    build="workers.library.download:http_get", effects=("network",),
    parameters=(
        Parameter("url", "string", "Where from. {column} stands for the event's value and may stand behind the host "
                  "only, which must be one that the operator allows (WEIR_HTTP_HOSTS).",
                  required=True, pattern=r"https?://[^\s/?#@{}]+/\S*"),
        Parameter("token", "string", "Sent as “Authorization: Bearer …”.", secret=True),
        Parameter("into", "string", "Column that gets the object; its size and the status go to columns of that name "
                  "with _bytes and _status.", default="body", pattern=r"[A-Za-z]\w*"),
        Parameter("keep", "string", "text: the object as UTF-8 text; digest: only its SHA-256, so that large objects "
                  "do not travel on.", default="text", choices=("text", "digest")),
        Parameter("most_bytes", "integer", "An object that is larger counts as an error.", default=4_000_000,
                  minimum=1, maximum=64_000_000),
        PATIENCE, ON_ERROR,
    ),
    cost_us=400,
)
TASK_TYPES = (HTTP_GET,)
READ_BYTES = 256 * 1024
_PLACE = re.compile(r"\{(\w+)\}")
_connections: dict[tuple[str, str, float], http.client.HTTPConnection] = {}  # of this Python worker


def http_get(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event with its object; one without (no such object, no answer in time, too large) as ``on_error`` says."""
    values = settings(HTTP_GET, config)
    _require_buildable(values)
    url, into, keep = values["url"], values["into"], values["keep"]
    most_bytes, patience_s = values["most_bytes"], float(values["patience"])
    headers = {"Authorization": f"Bearer {values['token']}"} if values["token"] else {}

    def ask(event: Mapping[str, Any]) -> list[tuple]:
        status, body = fetch(address(url, event), headers=headers, most_bytes=most_bytes, patience_s=patience_s)
        text = body.decode("utf-8", "replace") if keep == "text" else hashlib.sha256(body).hexdigest()
        return [(text, len(body), status)]

    return asked(
        inputs, task_type="http_get", reads=list(dict.fromkeys(_PLACE.findall(url))), ask=ask,
        adds=columns_ddl({into: "string", f"{into}_bytes": "bigint", f"{into}_status": "int"}),
        nothing=(None, None, None),
        on_error=values["on_error"],
    )


def http_get_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the host is not allowed, or the template cannot be filled in."""
    _require_buildable(settings(HTTP_GET, config))


def http_get_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and the object, its size and the answer's status."""
    for name in _PLACE.findall(values["url"]):
        inputs.require(name, parameter="url")
    into = values["into"]
    return inputs.renewed({into: "string", f"{into}_bytes": "bigint", f"{into}_status": "int"})


def address(template: str, event: Mapping[str, Any]) -> str:
    """The template with the event's values, percent-encoded: no value leads elsewhere than it says."""
    for name in _PLACE.findall(template):
        if event[name] is None or str(event[name]) in ("", ".", ".."):  # dots would lead to another folder
            raise NotAnswered(f"The event's {name} names no object.")
    return _PLACE.sub(lambda place: quote(str(event[place.group(1)]), safe=""), template)


def fetch(url: str, *, headers: Mapping[str, str], most_bytes: int, patience_s: float) -> tuple[int, bytes]:
    """Get an object over this worker's connection to the host.

    A connection that the other side has closed meanwhile is opened anew, once.

    Parameters
    ----------
    url : str
        The address.
    headers : mapping of str to str
        Of the request.
    most_bytes : int
        A longer body is refused.
    patience_s : float
        Seconds after which it gives up.

    Raises
    ------
    NotAnswered
        No success in time, or the object is too large.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    key = (parts.scheme, parts.netloc, patience_s)
    for is_last in (key not in _connections, True):
        connection = _connections.get(key) or _connections.setdefault(key, _connect(*key))
        began_s = time.monotonic()
        try:
            connection.request("GET", target, headers=dict(headers))
            answer = connection.getresponse()
            body = _body(answer, most_bytes=most_bytes, until_s=began_s + patience_s)
        except (OSError, http.client.HTTPException) as error:
            _forget(key)
            if is_last or isinstance(error, TimeoutError):
                raise NotAnswered(f"{parts.netloc} gave no answer: {type(error).__name__}.") from None
            continue
        if answer.will_close or not answer.isclosed():
            _forget(key)
        if not 200 <= answer.status < 300:
            raise NotAnswered(f"{parts.netloc} answered {answer.status}.")
        if len(body) > most_bytes:
            raise NotAnswered(f"{parts.netloc} has an object of more than {most_bytes} bytes.")
        return answer.status, body
    raise AssertionError("the last try returns or raises")


def _body(answer: http.client.HTTPResponse, *, most_bytes: int, until_s: float) -> bytes:
    """The object, or one byte more than it may have; a trickle that would take longer than that is a timeout."""
    parts: list[bytes] = []
    length = 0
    while length <= most_bytes and (part := answer.read1(min(READ_BYTES, most_bytes + 1 - length))):
        parts.append(part)
        length += len(part)
        if time.monotonic() > until_s:
            raise TimeoutError
    if answer.length == 0:
        answer.read()  # nothing: only this lets the connection be used again
    return b"".join(parts)


def _connect(scheme: str, host: str, patience_s: float) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    return kind(host, timeout=patience_s)


def _forget(key: tuple[str, str, float]) -> None:
    connection = _connections.pop(key, None)
    if connection is not None:
        connection.close()


def _require_buildable(values: Mapping[str, Any]) -> None:
    url, into = values["url"], values["into"]
    require_allowed(url)
    if re.search(r"[{}]", _PLACE.sub("", url)):
        raise InvalidConfig(f"“{url}” has a brace that names no column.",
                            remedy="Write {column}; a brace itself is %7B or %7D.", url=url)
    if into in STREAM or into in _PLACE.findall(url):
        raise InvalidConfig(f"The object cannot go into {into}.", remedy="Name a column that nothing else needs.",
                            into=into)
