"""Spark's types as text (its ``simpleString``): their parts. Reading one needs neither Spark nor a parser of SQL."""

from __future__ import annotations

import re

# Characters that delimit parts of a type, or quote: a field's name in a type as text cannot have them.
_DELIMITERS = frozenset("`'\"\\<>(),:;")
MOST_CHARACTERS = 255  # of a name
_SIMPLE = re.compile(r"[a-z_]+(\(\d{1,3}(,\d{1,3})?\))?")
_MOST_LEVELS = 32


def is_name(name: str) -> bool:
    """True where a column may have this name: it is not long, each character prints (none ends a line or turns the text
    around), and it holds no ``${``, for which Spark may put in a setting."""
    return 0 < len(name) <= MOST_CHARACTERS and name.isprintable() and "${" not in name


def is_field_name(name: str) -> bool:
    """True where a record's field may have this name, by which its type can be told as text."""
    return is_name(name) and not _DELIMITERS & set(name)


def element(kind: str) -> str | None:
    """The type of an array's elements, or of a map's values; None for other types."""
    if kind.startswith("array<"):
        return kind[6:-1]
    return arguments(kind[4:-1])[1] if kind.startswith("map<") else None


def key(kind: str) -> str | None:
    """The type of a map's keys; None for other types."""
    return arguments(kind[4:-1])[0] if kind.startswith("map<") else None


def fields(kind: str) -> dict[str, str]:
    """The fields of a struct: types by name, none for other types."""
    return dict(named_parts(kind)) if kind.startswith("struct<") else {}


def named_parts(kind: str) -> list[tuple[str, str]]:
    """The fields of a struct in their order, each with its name and its type."""
    parts = (part.partition(":") for part in arguments(kind[7:-1]))
    return [(name, inner) for name, _, inner in parts]


def arguments(text: str) -> list[str]:
    """Parts of a text between commas, outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]] if text else []


def is_type(kind: str, levels: int = _MOST_LEVELS) -> bool:
    """True where a text is a type and nothing else: a plain word, or an array, map or struct of such."""
    if not levels or not kind.endswith(">"):
        return bool(levels) and _SIMPLE.fullmatch(kind) is not None
    word, _, inside = kind[:-1].partition("<")
    parts = arguments(inside)
    if word == "struct":
        return all(is_field_name(name) and is_type(inner, levels - 1) for name, inner in named_parts(kind))
    return len(parts) == {"array": 1, "map": 2}.get(word) and all(is_type(part, levels - 1) for part in parts)
