"""Avro that is framed for a schema registry: a zero byte, the schema's number in four, then the record.

The writer's schema is asked of the registry once, by its number, which never stands for another one. What it makes of a
record are values as JSON has them, and times; a column's type decides what becomes of them.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any
from urllib.parse import urlsplit

from workers.library.outbound import Line, Unanswered, WrongAddress
from workers.library.reach import require_allowed

from .contract import SourceAway, SourceRefused
from .formats import UnreadableMessage

USUAL_PORT = 8081
DEADLINE_S = 10.0
LARGEST_SCHEMA_BYTES = 1 << 20
HEADER = struct.Struct(">bI")


class Registry:
    """A schema registry, and the schemas that it has given.

    Parameters
    ----------
    address : str
        ``http://host:port`` or https; the operator must allow it.
    user, password : str
        Of basic authentication; none where ``user`` is empty.
    """

    def __init__(self, address: str, *, user: str = "", password: str = "") -> None:
        parts = urlsplit(address)
        require_allowed(parts.netloc, usual_port=USUAL_PORT)
        self._line = Line(parts.scheme, parts.hostname or "", parts.port or USUAL_PORT)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            self._headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._schemas: dict[int, Any] = {}

    def values_of(self, body: bytes) -> Mapping[str, Any]:
        """The fields of a framed record.

        Raises
        ------
        UnreadableMessage
            It is not framed, has a schema that cannot be read, or does not fit it.
        SourceAway, SourceRefused
            The registry does not answer, or does not let its schemas be read.
        """
        import fastavro

        if len(body) < HEADER.size or body[0] != 0:
            raise UnreadableMessage(
                "is not framed for a schema registry: it does not begin with a zero byte and a number")
        number = HEADER.unpack_from(body)[1]
        schema = self._schema(number)
        content = io.BytesIO(body[HEADER.size:])
        try:
            values = fastavro.schemaless_reader(content, schema, None)
        except Exception as error:  # a record is anybody's bytes, and the library says so in many ways
            raise UnreadableMessage(
                f"does not fit its schema {number}: {type(error).__name__} {str(error)[:200]}") from None
        if not isinstance(values, dict) or content.read(1):
            raise UnreadableMessage(f"is no record of schema {number}" if not isinstance(values, dict) else
                             f"has bytes behind the record of its schema {number}")
        return {name: plain(value) for name, value in values.items()}

    def close(self) -> None:
        """Let go of the connection."""
        self._line.close()

    def _schema(self, number: int) -> Any:
        import fastavro

        if number not in self._schemas:
            document = self._asked(number)
            if document.get("schemaType", "AVRO") != "AVRO":
                raise UnreadableMessage(f"has schema {number}, which is {document['schemaType']} and no Avro")
            if document.get("references"):
                raise UnreadableMessage(f"has schema {number}, which refers to other schemas")
            try:
                text = json.loads(document["schema"])
                schema = fastavro.parse_schema(text)
            except Exception as error:
                raise UnreadableMessage(f"has schema {number}, which is no Avro schema: {str(error)[:200]}") from None
            require_sized(text)
            self._schemas[number] = schema
        return self._schemas[number]

    def _asked(self, number: int) -> Mapping[str, Any]:
        """The registry's answer to a schema's number."""
        try:
            answer = self._line.ask(
                "GET", f"/schemas/ids/{number}", headers=self._headers, deadline_s=DEADLINE_S,
                most_bytes=LARGEST_SCHEMA_BYTES)
        except (Unanswered, WrongAddress) as error:
            raise SourceAway(f"The schema registry does not answer: {error}.", remedy="It is tried again by itself."
                             ) from None
        if answer.status == 404:
            raise UnreadableMessage(f"has schema {number}, which the registry does not know")
        if answer.status in (401, 403):
            raise SourceRefused("The schema registry does not let its schemas be read.",
                                remedy="See to registry_user and registry_password.")
        try:
            document = json.loads(answer.body) if answer.status == 200 else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SourceAway(f"The schema registry answers {answer.status}, and no schema.",
                             remedy="See whether “registry” is its address. It is tried again by itself.")
        return document


def plain(value: Any) -> Any:
    """A value as columns take it: times of UTC stay times, bytes are base64, decimals and all else are text."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    return str(value)


def require_sized(schema: Any) -> None:
    """Raise ``UnreadableMessage`` where a schema (as JSON) has lists of what takes no bytes: few bytes may say that
    2^60 come.
    """
    parts: list[Any] = [schema]
    known: dict[str, Any] = {}
    for part in parts:  # grows while it is gone through
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            known |= {part["name"]: part} if "name" in part else {}
            parts += [field["type"] for field in part.get("fields", ())]
            parts += [part[name] for name in ("items", "values", "type") if isinstance(part.get(name), dict | list)]
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "array" and not _takes_bytes(part["items"], known, ()):
            raise UnreadableMessage(
                "has a schema with lists of what takes no bytes, of which nobody knows how many come")


def _takes_bytes(schema: Any, known: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    """Whether every value of a type takes one byte at least."""
    if isinstance(schema, list):
        return True  # the number of the branch
    if isinstance(schema, str):
        if schema not in known or schema in within:
            return schema != "null"
        return _takes_bytes(known[schema], known, (*within, schema))
    if schema["type"] == "record":
        inside = (*within, schema.get("name", ""))
        return any(_takes_bytes(field["type"], known, inside) for field in schema["fields"])
    if schema["type"] == "fixed":
        return schema["size"] > 0
    return schema["type"] in ("array", "map", "enum") or _takes_bytes(schema["type"], known, within)
