"""Strict JSON (RFC 8259) with the position of every value, and as many problems at once as can be told apart.

Libraries that give positions (json-source-map, JSON read as YAML) stop at the first problem or accept what is not JSON.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring
from typing import Any

from .bounds import DOCUMENT_DEPTH, DOCUMENT_VALUES
from .positions import DocumentNode, Problems, TextPosition, UnreadableDocument, child_path, shown

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![0-9A-Za-z_.+-])")
_WORD = re.compile(r"[-+]?[A-Za-z0-9_.+-]+")
_LITERALS = {"true": True, "false": False, "null": None}
_LONGEST_INTEGER = 40  # digits; nothing that a task takes is longer


def read_json(text: str, problems: Problems) -> DocumentNode:
    """Parse JSON text; raises Unreadable where reading on would be guessing."""
    return _Reader(text, problems).document()


class _Reader:
    def __init__(self, text: str, problems: Problems) -> None:
        self.text = text
        self.problems = problems
        self.line_starts = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]
        self.values = 0

    def document(self) -> DocumentNode:
        node, end = self.value(self.skip(0), "", 1)
        end = self.skip(end)
        if end != len(self.text):
            raise self.stop(
                "json_syntax", end, "Something follows the end of the document.",
                "Remove what stands behind the last closing brace.",
            )
        return node

    def value(self, at: int, path: str, depth: int) -> tuple[DocumentNode, int]:
        """The value that starts at an index, and the index behind it."""
        position = self.position(at, path)
        self.values += 1
        if self.values > DOCUMENT_VALUES.most:
            raise self.stop(
                "too_many_values", at, f"The document has more than {DOCUMENT_VALUES.most:,} values.", "Split it.")
        first = self.text[at : at + 1]
        if depth > DOCUMENT_DEPTH.most and first in ("{", "["):
            raise self.stop(
                "too_deep", at, f"Values are nested more than {DOCUMENT_DEPTH.most} deep.",
                "Flatten what is nested here.",
            )
        if first == "{":
            return self.mapping(at, position, depth)
        if first == "[":
            return self.list(at, position, depth)
        if first == '"':
            text, end = self.string(at)
            return DocumentNode(text, position), end
        return self.scalar(at, position)

    def mapping(self, at: int, position: TextPosition, depth: int) -> tuple[DocumentNode, int]:
        node, comma_at = DocumentNode({}, position), None
        at = self.skip(at + 1)
        while not self.closes(at, "}", comma_at):
            if self.text[at : at + 1] != '"':
                raise self.expected(at, 'a key in double quotes, as in "name"')
            key_at = at
            key, at = self.string(at)
            at = self.skip(at)
            if self.text[at : at + 1] != ":":
                raise self.expected(at, "a colon after the key")
            path = child_path(position.path, key)
            value, at = self.value(self.skip(at + 1), path, depth + 1)
            if key in node.value:
                self.problems.add(
                    "duplicate_key", self.position(key_at, path),
                    f"Key {shown(key)} is there twice; the first is on line {node.keys[key].line}.",
                    "Keep one of the two.",
                )
            else:
                node.value[key], node.keys[key] = value, self.position(key_at, path)
            at, comma_at = self.comma(at, "}")
        return node, at + 1

    def list(self, at: int, position: TextPosition, depth: int) -> tuple[DocumentNode, int]:
        node, comma_at = DocumentNode([], position), None
        at = self.skip(at + 1)
        while not self.closes(at, "]", comma_at):
            value, at = self.value(at, child_path(position.path, len(node.value)), depth + 1)
            node.value.append(value)
            at, comma_at = self.comma(at, "]")
        return node, at + 1

    def closes(self, at: int, bracket: str, comma_at: int | None) -> bool:
        """True if the mapping or list ends here; reports a comma that stands before its end."""
        if self.text[at : at + 1] != bracket:
            return False
        if comma_at is not None:
            self.problems.add(
                "trailing_comma", self.position(comma_at), f"A comma stands before the closing {bracket}",
                "Remove the comma.",
            )
        return True

    def comma(self, at: int, bracket: str) -> tuple[int, int | None]:
        """The index of what follows an element, and of the comma between; none before the closing bracket."""
        at = self.skip(at)
        if self.text[at : at + 1] == ",":
            return self.skip(at + 1), at
        if self.text[at : at + 1] != bracket:
            raise self.expected(at, f"a comma or the closing {bracket}")
        return at, None

    def string(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, at + 1, True)
            return self.problems.clean(text, self.position(at)), end
        except JSONDecodeError as error:
            raise self.stop(
                "json_syntax", min(error.pos, len(self.text)), f"{error.msg}.".replace(" at.", "."),
                'Close the string with a double quote; write line breaks as \\n, and a backslash as \\\\.',
            ) from None

    def scalar(self, at: int, position: TextPosition) -> tuple[DocumentNode, int]:
        word = _WORD.match(self.text, at)
        if word is None:
            raise self.expected(at, "a value")
        if word[0] in _LITERALS:
            return DocumentNode(_LITERALS[word[0]], position), word.end()
        number = _NUMBER.match(self.text, at)
        if number is not None:
            return DocumentNode(self.number(number, position), position), number.end()
        if word[0].lstrip("+-") in ("NaN", "Infinity"):
            self.problems.add("not_finite", position, f"{word[0]} is no JSON number.",
                              "Write a finite number, or null.")
            return DocumentNode(None, position), word.end()
        if word[0].casefold() in (*_LITERALS, "none"):
            remedy = "JSON writes true, false and null in lower case."
        else:
            remedy = "Put text into double quotes; write numbers as 10, -0.5 or 1e3."
        raise self.stop("json_syntax", at, f"{shown(word[0])} is no JSON value.", remedy)

    def number(self, match: re.Match[str], position: TextPosition) -> Any:
        whole, fraction, exponent = match.groups()
        if fraction is None and exponent is None and len(whole) <= _LONGEST_INTEGER:
            return int(whole)
        value = float(match[0])
        if abs(value) == float("inf") or (fraction is None and exponent is None):
            self.problems.add(
                "out_of_range", position, f"Number {shown(match[0])} is too large.", "Write a number of ordinary size."
            )
            return None
        return value

    def skip(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()

    def position(self, at: int, path: str = "") -> TextPosition:
        line = bisect_right(self.line_starts, at)
        return TextPosition(line, at - self.line_starts[line - 1] + 1, path)

    def expected(self, at: int, construct: str) -> UnreadableDocument:
        if at >= len(self.text):
            return self.stop("json_syntax", at, f"The text ends where {construct} should be.", "Complete the document.")
        return self.stop(
            "json_syntax", at, f"Found {shown(self.text[at])} where {construct} should be.", f"Write {construct} here."
        )

    def stop(self, code: str, at: int, message: str, remedy: str) -> UnreadableDocument:
        return self.problems.stop(code, self.position(at), message, remedy)
