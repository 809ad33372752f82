"""Bounds on how much a query may make of one event. A result that functions enlarge is bounded before it is made.

A text grows by replacing its characters, by concatenation, or by a function on each element of a list. Lists and
records grow alike, and a query of one line can make terabytes of a kilobyte. So each value that a function is about to
enlarge is held to a bound at run time (``ResultBounds.java``). If the query itself tells its size, and that is beyond
the bound, the query is refused when it is read. All bounds of a query add up to ``RESULT_BYTES``: at no moment does it
hold more than that and the event.

Sizes are in bytes. A list or record has eight for each element or field, besides the values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from scheduler.model.bounds import MATCHING_STEPS, RESULT_BYTES

from ..spark_text import literal
from .grammar import refused
from .typed_values import Typed

BOUNDED, COUNTED = "weir_bounded", "weir_counted"  # functions of a slot's session
_SCALAR = 64  # of a number or time as text, at the most
_ELEMENT = 8
_ESCAPED = 6  # a character in JSON
_PADDED = 40_000  # lpad and rpad give 10,000 characters
_SPLIT = 16  # an element of a list of one character
_EXPLODED = 16  # an event for each
_DIGEST = 128
_FIELD_CHARACTERS = 3  # of JSON, that may make a record of many fields


def size_of(value: Typed) -> int | None:
    """The most bytes that a value can have, as far as the query tells; None where only the event does."""
    if value.most is not None or value.kind is None:
        return value.most
    return None if value.kind == "string" or _is_nested(value.kind) else _SCALAR


def _is_nested(kind: str) -> bool:
    return kind.startswith(("array<", "map<", "struct<"))


class TextGrowth:
    """Bounds on growth in one query: the values that may grow, and how far.

    Parameters
    ----------
    most : int
        Bytes that each of what grows may reach.
    patterns : int
        The number of patterns that share the steps of matching.
    task : str
        The running task, for messages; empty where none is known.
    """

    def __init__(self, most: int, task: str = "", *, patterns: int = 1) -> None:
        self._most, self._task = most, task
        self._steps = MATCHING_STEPS.most // max(1, patterns)
        self.patterns = 0  # that were written
        self.count = 0  # of bounds that were written
        self._sites = 0

    def within(self, value: Typed, label: str, *, times: int | str = 1) -> Typed:
        """A value that at run time is no larger than the bound, so many times.

        Parameters
        ----------
        times : int or str
            The most times that it may come to be there; or a whole number as text for Spark.

        Raises
        ------
        InvalidConfig
            The query itself tells that it is larger.
        """
        size = size_of(value)
        if size is not None and isinstance(times, int):
            self.require(size * times, label)
            return value
        self.count += 1
        return Typed(
            value.kind, f"{BOUNDED}({value.spark}, {times}, {self._most}L, {self._place(label)})", value.most)

    def require(self, size: int, label: str) -> None:
        """Raise ``InvalidConfig`` where a query makes more of any event than it may."""
        if size > self._most:
            raise refused(f"lets {label} make {size:,} bytes of any event, and {self._most:,} is the most here",
                          "Write shorter texts, or let a condition or substring before it take less.")

    def size_together(self, values: Sequence[Typed], label: str) -> tuple[list[Typed], int | None]:
        """Values that are put into one, and the size of that as far as the query tells."""
        sizes = [size_of(value) for value in values]
        self.require(sum(size or 0 for size in sizes), label)
        if sizes.count(None) == 0:
            return list(values), sum(size or 0 for size in sizes)
        if sizes.count(None) == 1:  # as long as before, and what the query adds
            return list(values), None
        return [self.within(value, label) if size is None else value
                for value, size in zip(values, sizes, strict=True)], None

    def of_event(
        self, values: Mapping[int, Typed], names: Mapping[int, str], *, plain: Collection[int], starred: Collection[str]
    ) -> dict[int, Typed]:
        """The columns of an event: what is there once is no longer than the event before, a second time it is.

        Parameters
        ----------
        plain : collection of int
            Those that are columns of the input.
        starred : collection of str
            The other columns of the event, as text for Spark.
        """
        plain_texts, longer = set(starred), []
        for index, value in values.items():
            if size_of(value) is not None:
                continue
            if index in plain and value.spark not in plain_texts:
                plain_texts.add(value.spark)
            else:
                longer.append(index)
        if not (plain_texts or len(longer) > 1):
            return dict(values)
        return {**values, **{index: self.within(values[index], f"the column {names[index]}") for index in longer}}

    def elements(self, listed: Typed, label: str, *, is_outermost: bool) -> Typed:
        """A list of which each element is about to be worked on. Each counts, in functions within functions, too."""
        self._sites += is_outermost
        self.count += is_outermost
        return Typed(listed.kind, self._counted(listed, label, self._sites if is_outermost else 0), listed.most)

    def element(self, made: Typed, label: str) -> Typed:
        """A value made of an element of a list: it stays in memory while the others are worked on."""
        if made.kind is not None and made.kind != "string" and not _is_nested(made.kind):
            return made
        return Typed(made.kind, self._counted(made, label, 0), made.most)

    def _counted(self, value: Typed, label: str, site: int) -> str:
        return f"{COUNTED}({value.spark}, {self._most}L, {site}, {self._place(label)})"

    def _place(self, label: str) -> str:
        return literal(f"task {self._task}: {label}" if self._task else label)

    def matching(self, label: str, *, in_list: bool) -> str:
        """Bounds of a pattern, as arguments for Spark: steps, whether elements of a list share them, the place."""
        self.patterns += 1
        return f"{self._steps}L, {str(in_list).lower()}, {self._place(label)}"

    # -- functions -----------------------------------------------------------------------------------------------------

    def called(
        self, name: str, values: Sequence[Typed], written: Sequence[str | None], kind: str | None
    ) -> tuple[list[Typed], int | None]:
        """The arguments of a function that is called, each bounded as it must be, and the size of the result as far as
        the query tells.
        """
        made = list(values)
        match name:
            case "concat" | "array":
                return self.size_together(values, name)
            case "concat_ws":
                return [self.within(values[0], name, times=len(values)), *self.size_together(values[1:], name)[0]], None
            case "replace":
                return self._replaced(made, written)
            case "regexp_replace":
                return self._times(made, len((written[2] or "").encode()) + 1, name)
            case "array_join":
                made[0] = self._product(made[0], made[1], name)
            case "levenshtein":  # so many steps; its result is a number
                made[0] = self._product(made[0], made[1], name)
            case "split":
                return self._times(made, _SPLIT, name)
            case "to_json":
                return self._times(made, _ESCAPED + _longest_name(values[0].kind or "") // _ELEMENT, name)
            case "from_json" if "array<" in (kind or "") or "map<" in (kind or ""):
                fields = (kind or "").count(":") + 1
                return self._times(made, (_ELEMENT * fields + 3 * _ELEMENT) // _FIELD_CHARACTERS, name)
            case "lpad" | "rpad":
                return made, _PADDED
            case "md5" | "sha2":
                return made, _DIGEST
            case "left" | "right" | "substring" | "substr":
                count = written[-1] if name in ("left", "right") or len(written) == 3 else None
                return made, _cut(size_of(values[0]), count)
            case "upper" | "lower" | "trim" | "ltrim" | "rtrim" | "initcap" | "reverse" | "translate":
                size = size_of(values[0])
                return made, None if size is None else 4 * size
            case _ if len(values) == 1 and (kind or "").startswith(("array<", "map<")):
                return made, size_of(values[0])
        return made, None

    def exploded(self, listed: Typed, label: str) -> Typed:
        """A list that becomes an event for each element."""
        return self.within(listed, label, times=_EXPLODED)

    def _times(self, made: list[Typed], times: int, label: str) -> tuple[list[Typed], int | None]:
        """The first argument, whose length is multiplied."""
        if times > 1:
            made[0] = self.within(made[0], label, times=times)
        size = size_of(made[0])
        return made, None if size is None else size * times

    def _product(self, value: Typed, by: Typed, label: str) -> Typed:
        """A value that is multiplied by the length of another."""
        size = size_of(by)
        return self.within(value, label, times=_length(by) if size is None else 1 + size)

    def _replaced(self, made: list[Typed], written: Sequence[str | None]) -> tuple[list[Typed], int | None]:
        text, by = size_of(made[0]), size_of(made[2])
        searched = max(1, len((written[1] or "").encode()))
        if by is not None:
            return self._times(made, -(-by // searched) or 1, "replace")
        if text is not None:
            made[2] = self.within(made[2], "replace", times=1 + text // searched)
        else:
            made[0] = self.within(made[0], "replace", times=_length(made[2]))
        return made, None


def _longest_name(kind: str) -> int:
    """The length of the longest name in a type, with its quotes and the colon behind it."""
    return max(map(len, re.split("[<>,:]", kind))) + 4


def _length(text: Typed) -> str:
    """Bytes of a text at the most, as text for Spark: a character has four of them."""
    return f"try_multiply(length({text.spark}), 4)"


def _cut(size: int | None, written: str | None) -> int | None:
    """The most bytes of so many characters out of a text."""
    try:
        most = 4 * max(0, int(written or ""))
    except ValueError:
        return size
    return most if size is None else min(most, size)


def bounds_for(count: int) -> int:
    """Bytes that each of so many bounds of a query may reach."""
    return RESULT_BYTES.most // max(1, count)


