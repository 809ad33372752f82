"""Keys as texts: the values of a key's columns in one text that no other key has (decision 0124).

Values are parted by U+001F, missing ones are U+0000, and texts with these characters are escaped by U+001B.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MISSING, PARTED = "\x00", "\x1f"
ESCAPES = (("\x1b", "\x1be"), (PARTED, "\x1bu"), (MISSING, "\x1b0"))


def key_text_of(values: Iterable[Any]) -> str | None:
    """The text of a key with these values, as they come out of a stream; None where that is not known: it is known of
    texts, whole numbers, booleans and null."""
    texts = []
    for value in values:
        if value is not None and not isinstance(value, str | int):
            return None
        text = value if isinstance(value, str) else str(value).lower()  # true and false are those of SQL
        for character, escape in ESCAPES:
            text = text.replace(character, escape)
        texts.append(MISSING if value is None else text)
    return PARTED.join(texts)


def key_in_words(text: str) -> tuple[str, ...]:
    """The values of a key's text, as people read them.

    >>> key_in_words(key_text_of(["m1", 3]))
    ('m1', '3')
    """
    values = []
    for part in text.split(PARTED):
        value = part
        for character, escape in reversed(ESCAPES):
            value = value.replace(escape, character)
        values.append("null" if part == MISSING else value)
    return tuple(values)
