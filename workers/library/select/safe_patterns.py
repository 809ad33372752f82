"""Patterns whose matching cannot explode: which regular expressions Java's backtracking does in bounded time.

Java tries one way of matching after another. If at each place of a text at most one way can go on, only one is ever
tried to its end. If several can, the ways multiply: within a repetition without bound, so that thirty characters take
hours; outside of one by their number, or by the length of the text. So a pattern is accepted if nothing within
repetitions is ambiguous, and if at most `MOST_LOOSE` of the repetitions outside may end at several places. Matching
then takes at most the text's length to the power of `MOST_LOOSE` + 2. For a long text that is still days, and
`matching` ends it by counting characters that are looked at. Ways that go on without a character, as ``$`` does at a
text's end, are bounded here alone: two such ways are ambiguous whatever follows them.

The characters that a part may match are sets that are never too small: exact for ASCII, all others together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MOST_LOOSE = 2  # repetitions, besides others, that may end at several places
MOST_BRANCHES = 64  # ways outside of repetitions
MOST_REPEATED = 1000
_ASCII = 128
_OTHER, _END = 1 << _ASCII, 1 << (_ASCII + 1)
_ALL = (1 << (_ASCII + 1)) - 1
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_CLASSES = {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_WORD: r"\w",
            sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_NOT_WORD: r"\W"}
_LINE_ENDS = 1 << ord("\n") | 1 << ord("\r") | _OTHER


class _TooLoose(Exception):
    """Matching may take too long."""


class _Count:
    """What multiplies outside of repetitions."""

    def __init__(self) -> None:
        self.loose, self.branches = 0, 1


def is_bounded(pattern: str) -> bool:
    """True where matching takes time by a small power of the text's length.

    Parameters
    ----------
    pattern : str
        A regular expression that Python's `re` takes.

    Examples
    --------
    >>> is_bounded("^[a-z]+@[a-z.]+$"), is_bounded("ERROR.*disk.*")
    (True, True)
    >>> is_bounded("(a+)+$"), is_bounded("a*a*a*a*~")
    (False, False)
    """
    count = _Count()
    try:
        _check(list(parser.parse(pattern)), 0, count, repeated=False)
    except (_TooLoose, re.error, RecursionError, OverflowError):
        return False
    return count.loose <= MOST_LOOSE and count.branches <= MOST_BRANCHES


def _check(items: Sequence[tuple[Any, Any]], follow: int, count: _Count, *, repeated: bool) -> None:
    """Go through a sequence. ``follow``: what may come behind it and fail there; 0 where nothing can fail any more."""
    for index, (kind, argument) in enumerate(items):
        next_characters, is_empty = _first(items[index + 1:])
        after = next_characters | follow if is_empty else next_characters
        if kind in _REPEATS:
            _check_repeat(argument, after, count, repeated=repeated)
        elif kind is sre.BRANCH:
            firsts = [_first(branch) for branch in argument[1]]
            _choose([first | (after | _END if may_be_empty else 0) for first, may_be_empty in firsts], count,
                    repeated=repeated)
            for branch in argument[1]:
                _check(branch, after, count, repeated=repeated)
        elif kind is sre.SUBPATTERN:
            _check(argument[3], after, count, repeated=repeated)
        elif kind is sre.ATOMIC_GROUP:
            _check(argument, after, count, repeated=repeated)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            count.loose += repeated  # it is looked ahead from each place
            _check(argument[1], 0, count, repeated=repeated)
        elif kind not in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.AT):
            raise _TooLoose


def _check_repeat(argument: tuple[Any, Any, Any], after: int, count: _Count, *, repeated: bool) -> None:
    least, most, body = argument
    first, may_be_empty = _first(body)
    if least == most == 1:
        return _check(body, after, count, repeated=repeated)
    if most != sre.MAXREPEAT and most > MOST_REPEATED:
        raise _TooLoose
    takes_none = may_be_empty or bool(first & _END)
    if least != most and (first & after or (least == 0 and takes_none)):
        if repeated:
            raise _TooLoose
        count.loose += most > 1
        count.branches *= 1 if most > 1 else 2
    if most > 1 and may_be_empty:
        raise _TooLoose
    if takes_none:
        count.branches *= max(1, least)  # it is tried as often, and may look at no character
    return _check(body, after | (first if most > 1 else 0), count, repeated=repeated or most > 1)


def _choose(firsts: Sequence[int], count: _Count, *, repeated: bool) -> None:
    """One of several ways: the first character tells which, or all of them may be tried."""
    if reduce(or_, firsts, 0).bit_count() == sum(first.bit_count() for first in firsts):
        return
    if repeated:
        raise _TooLoose
    count.branches *= len(firsts)


def _first(items: Sequence[tuple[Any, Any]]) -> tuple[int, bool]:
    """With which characters a sequence may begin, and whether it may be empty."""
    characters = 0
    for kind, argument in items:
        some, may_be_empty = _first_of(kind, argument)
        characters |= some
        if not may_be_empty:
            return characters, False
    return characters, True


def _first_of(kind: Any, argument: Any) -> tuple[int, bool]:
    if kind is sre.LITERAL:
        return _set_of(argument), False
    if kind is sre.NOT_LITERAL:
        return _ALL & ~_set_of(argument) | _OTHER, False
    if kind is sre.ANY:
        return _ALL, False
    if kind is sre.IN:
        return _class(argument), False
    if kind in _REPEATS:
        characters, may_be_empty = _first(argument[2])
        return characters, may_be_empty or argument[0] == 0
    if kind is sre.BRANCH:
        firsts = [_first(branch) for branch in argument[1]]
        return reduce(or_, (first for first, _ in firsts), 0), any(may_be_empty for _, may_be_empty in firsts)
    if kind is sre.SUBPATTERN:
        return _first(argument[3])
    if kind is sre.ATOMIC_GROUP:
        return _first(argument)
    if kind is sre.AT and argument in (sre.AT_END, sre.AT_END_STRING):
        return _LINE_ENDS | _END, False
    return 0, True  # a place, or what looks ahead or back


def _set_of(code: int) -> int:
    return 1 << code if code < _ASCII else _OTHER


def _class(parts: Sequence[tuple[Any, Any]]) -> int:
    characters, is_negated = 0, False
    for kind, argument in parts:
        if kind is sre.NEGATE:
            is_negated = True
        elif kind is sre.LITERAL:
            characters |= _set_of(argument)
        elif kind is sre.RANGE:
            characters |= reduce(or_, (1 << code for code in range(argument[0], min(argument[1], _ASCII - 1) + 1)), 0)
            characters |= _OTHER if argument[1] >= _ASCII else 0
        else:
            characters |= _CATEGORY[argument]
    return _ALL & ~characters | _OTHER if is_negated else characters


_CATEGORY = {  # Java's are of ASCII, and so all others are in what they are not
    category: reduce(or_, (1 << code for code in range(_ASCII) if re.fullmatch(text, chr(code), re.ASCII)), 0)
    | (_OTHER if text[1].isupper() else 0) for category, text in _CLASSES.items()}
