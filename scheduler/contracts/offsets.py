"""Offsets: places in channels, as texts in the order of the channel."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_FORM = re.compile(r"\d+-\d+", re.ASCII)


class Offset(str):
    """The place of a block in a channel, ``<block number>-<n>``: the id of its entry in the broker's stream.

    In JSON, in the broker and in Spark's checkpoints it is this text; its order is that of the numbers.

    Raises
    ------
    ValueError
        The text is no two whole numbers with a hyphen between them.
    """

    block: int  # the number of the block, without unit: the base of its writer, and its batch
    _order: tuple[int, int]

    def __new__(cls, text: str) -> Self:
        if isinstance(text, cls):
            return text
        if not _FORM.fullmatch(text):
            raise ValueError(f"{text!r} is no offset: two whole numbers with a hyphen between them")
        offset = super().__new__(cls, text)
        block, _, entry = text.partition("-")
        offset.block = int(block)
        offset._order = (offset.block, int(entry))
        return offset

    def __lt__(self, other: str) -> bool:
        return self._order < Offset(other)._order

    def __le__(self, other: str) -> bool:
        return self._order <= Offset(other)._order

    def __gt__(self, other: str) -> bool:
        return self._order > Offset(other)._order

    def __ge__(self, other: str) -> bool:
        return self._order >= Offset(other)._order

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(pattern=r"^[0-9]+-[0-9]+$"))


START = Offset("0-0")  # before the first block
