"""Objects over HTTP: for each event the one that its values name, over connections that are kept open.

As with the sink over HTTP, the operator names the hosts (``WEIR_HTTP_HOSTS``), and redirects are not followed.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM
from .config import InvalidConfig, settings
from .http import line_to, require_allowed, target_of
from .outbound import Line, TooLate, Unanswered, WrongAddress
from .outside import ON_ERROR, PATIENCE, NotAnswered, with_answers
from .spark_text import columns_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HTTP_GET = TaskType(
    name="http_get", kind="transform", family="io",
    doc="Downloads the object that an event names, and adds it, its size and the answer's status.",
    build="workers.library.download:http_get", effects=("network",),
    parameters=(
        Parameter("url", "string", "The address to download from. {column} stands for the event's value and may stand "
                  "only behind the host, which the operator must allow (WEIR_HTTP_HOSTS).",
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
_PLACE = re.compile(r"\{(\w+)\}")
_lines: dict[tuple[str, str], Line] = {}  # of this Python worker


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

    return with_answers(
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
    return _PLACE.sub(lambda match: quote(str(event[match.group(1)]), safe=""), template)


def fetch(url: str, *, headers: Mapping[str, str], most_bytes: int, patience_s: float) -> tuple[int, bytes]:
    """Get an object over this worker's connection to the host.

    A connection that the other side has closed meanwhile is opened anew, once.

    Raises
    ------
    NotAnswered
        No success in time, or the object is too large.
    """
    key = (urlsplit(url).scheme, urlsplit(url).netloc)
    until_s = time.monotonic() + patience_s
    for is_last in (key not in _lines, True):
        line = _lines.get(key) or _lines.setdefault(key, line_to(url))
        try:
            answer = line.ask("GET", target_of(url), headers=headers, most_bytes=most_bytes,
                              deadline_s=max(0.001, until_s - time.monotonic()))
            break
        except (Unanswered, WrongAddress) as error:
            del _lines[key]
            if is_last or not isinstance(error, Unanswered) or isinstance(error, TooLate):
                raise NotAnswered(f"{key[1]} gave no answer: {error}.") from None
    if not 200 <= answer.status < 300:
        raise NotAnswered(f"{key[1]} answered {answer.status}.")
    if len(answer.body) > most_bytes:
        raise NotAnswered(f"{key[1]} has an object of more than {most_bytes} bytes.")
    return answer.status, answer.body


def _require_buildable(values: Mapping[str, Any]) -> None:
    url, into = values["url"], values["into"]
    require_allowed(url)
    if re.search(r"[{}]", _PLACE.sub("", url)):
        raise InvalidConfig(f"“{url}” has a brace that names no column.",
                            remedy="Write {column}; a brace itself is %7B or %7D.", url=url)
    if into in STREAM or into in _PLACE.findall(url):
        raise InvalidConfig(f"The object cannot go into {into}.", remedy="Name a column that nothing else needs.",
                            into=into)
