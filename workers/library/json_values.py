"""Values of events as JSON: numbers by their text, one rule for infinite ones and NaN, and lists in which a damaged
item spoils no other.

A number that a 64-bit integer or a double would write differently keeps its text (``WrittenNumber``): 1.10 is not 1.1
to a column of text, and a decimal of 37 digits loses none. NaN and Infinity are no JSON (RFC 8259); as texts, and so in
quotes, they are values of a column of doubles.
"""

from __future__ import annotations

import base64
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

_SAFE_DIGITS = 18  # so many digits and a sign are an integer of 64 bits
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{},]', re.DOTALL)
MOST_SHOWN = 20_000  # characters of a value that is shown
GZIP = b"\x1f\x8b"


class UnreadableMessage(ValueError):
    """A message, or an event in it, does not fit; the text says why."""


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number of JSON, by its text."""

    text: str


def text_of(body: bytes) -> str:
    """A body as text, without the mark that says its encoding; raises `UnreadableMessage` for one that is none."""
    if body.startswith(BOM_UTF8):
        body = body[len(BOM_UTF8):]
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise UnreadableMessage(f"is no text in UTF-8{_what_else(body)}") from None


def parsed(body: bytes) -> Any:
    """A document of JSON; raises `UnreadableMessage`.

    What is not UTF-8 is told by its first bytes, as JSON itself says.
    """
    return _value(json_text(body))


def json_text(body: bytes) -> str:
    """The text of a document of JSON, in whichever encoding of Unicode it came."""
    if b"\0" not in body[:4] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return text_of(body)
    try:
        return body.decode(json.detect_encoding(body))
    except UnicodeDecodeError:
        raise UnreadableMessage(f"is no JSON{_what_else(body)}") from None


def items_of(body: bytes) -> Iterator[tuple[Any, str | None]]:
    """The events of a document: a list's items, or the whole; each with its text where it cannot be read.

    Raises
    ------
    UnreadableMessage
        It is no list, and no JSON.

    Yields
    ------
    tuple
        A value and None; or an ``UnreadableMessage`` and the text that it is about.
    """
    text = json_text(body)
    try:
        document = _value(text)
    except UnreadableMessage as whole:
        if not text.lstrip().startswith("["):
            raise
        yield from _items_of_damaged(text, whole)
        return
    for item in document if isinstance(document, list) else [document]:
        yield item, None


def _items_of_damaged(text: str, whole: UnreadableMessage) -> Iterator[tuple[Any, str | None]]:
    """The items of a list of which some are no JSON. Where its brackets or quotes do not close, nobody knows where the
    next one begins: all from the first damaged one on is told as one."""
    pieces, is_whole = _pieces(text)
    for begin, end in pieces:
        item = text[begin:end]
        try:
            value = _value(item)
        except UnreadableMessage as error:
            if not is_whole:
                yield UnreadableMessage(f"from here on {whole}"), text[begin:]
                return
            yield error, item
        else:
            yield value, None
    if not is_whole:
        begin = pieces[-1][1] if pieces else 0
        yield UnreadableMessage(f"from here on {whole}"), text[begin:]


def _pieces(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Where the items of a list begin and end, and whether its brackets and quotes close."""
    pieces: list[tuple[int, int]] = []
    closing: list[str] = []
    begin = -1
    for match in _PARTS.finditer(text):
        part = match[0]
        if part in "[{":
            closing.append("]" if part == "[" else "}")
            if len(closing) == 1:
                begin = match.end()
        elif part in "]}":
            if not closing or closing.pop() != part:
                return pieces, False
            if not closing:
                is_over = not text[match.end():].strip()
                if pieces or text[begin:match.start()].strip():
                    pieces.append((begin, match.start()))
                return pieces, is_over
        elif part == "," and len(closing) == 1:
            pieces.append((begin, match.start()))
            begin = match.end()
        elif part == '"':
            return pieces, False
    return pieces, False


def _value(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableMessage(f"is no JSON: {str(error)[:200]}") from None


def _whole_number(text: str) -> int | WrittenNumber:
    return WrittenNumber(text) if len(text) > _SAFE_DIGITS or text == "-0" else int(text)


def _number(text: str) -> float | WrittenNumber:
    value = float(text)
    return value if repr(value) == text else WrittenNumber(text)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON; in quotes it is a value of a double")


_DECODER = json.JSONDecoder(parse_int=_whole_number, parse_float=_number, parse_constant=_constant)


def written(value: Any) -> str:
    """A value as JSON again, its numbers as they came; NaN and the infinities as texts."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_refuse, allow_nan=False)
    except (TypeError, ValueError):
        return _written(value)


def _refuse(value: Any) -> Any:
    if isinstance(value, WrittenNumber):
        raise TypeError
    return str(value)


def _written(value: Any) -> str:
    if isinstance(value, WrittenNumber):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(str(name))}: {_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'"{not_finite(value)}"'
    return json.dumps(value, ensure_ascii=False, default=str)


def not_finite(value: float) -> str:
    """The text of what is no number, or infinite: as JSON has it, in quotes, from sources to sinks and answers."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_ready(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601, bytes in base64, decimals and what is not finite as text."""
    match value:
        case float() if not math.isfinite(value):
            return not_finite(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case Mapping():
            return {str(name): json_ready(inner) for name, inner in value.items()}
        case list() | tuple():
            return [json_ready(inner) for inner in value]
        case _:
            return value


def shown(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event for display, as JSON: a very long value is cut, with its length."""
    return {name: _beginning(json_ready(value)) for name, value in event.items()}


def _beginning(value: Any) -> Any:
    if not isinstance(value, str | list | dict):
        return value
    text = value if isinstance(value, str) else written(value)
    return value if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text):,} characters)"


def _what_else(body: bytes) -> str:
    """What a body that is no text looks like, for whoever has to mend it."""
    if body.startswith(GZIP):
        return ": it is packed by gzip; send it unpacked"
    if body[:1] == b"\0" and len(body) > 5:
        number = int.from_bytes(body[1:5], "big")
        return f": it is framed for a schema registry (schema {number}), and is Avro, Protobuf or another's JSON"
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ": it is UTF-16; write it in UTF-8"
    return ""
