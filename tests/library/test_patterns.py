"""Patterns of `sql` that are taken are matched in bounded time, by the steps of a matcher that tries as Java does."""

from __future__ import annotations

from collections.abc import Callable
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.library.select.safe_patterns import MOST_BRANCHES, MOST_LOOSE, is_bounded

LONGEST = 24


class Steps:
    """Matches as Java does, one way after the other, and counts how often it looks at a place."""

    def __init__(self, text: str, *, most: int) -> None:
        self.text, self.most, self.count = text, most, 0

    def match(self, items: list[tuple[Any, Any]], at: int, then: Callable[[int], bool]) -> bool:
        self.count += 1
        if self.count > self.most:
            raise OverflowError
        if not items:
            return then(at)
        (kind, what), rest = items[0], items[1:]
        go_on = lambda place: self.match(rest, place, then)  # noqa: E731
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self.repeat(what, at, go_on, 0)
        if kind is sre.BRANCH:
            return any(self.match(list(branch), at, go_on) for branch in what[1])
        if kind is sre.SUBPATTERN:
            return self.match(list(what[3]), at, go_on)
        if kind is sre.AT:
            return at == (0 if what is sre.AT_BEGINNING else len(self.text)) and go_on(at)
        return at < len(self.text) and self.fits(kind, what, self.text[at]) and go_on(at + 1)

    def repeat(self, what: tuple[Any, Any, Any], at: int, then: Callable[[int], bool], done: int) -> bool:
        least, most, body = what
        if (most == sre.MAXREPEAT or done < most) and self.match(
                list(body), at,
                lambda place: (place > at or done < least) and self.repeat(what, place, then, done + 1)):
            return True
        return done >= least and then(at)

    @staticmethod
    def fits(kind: Any, what: Any, character: str) -> bool:
        if kind is sre.LITERAL:
            return ord(character) == what
        if kind is sre.NOT_LITERAL:
            return ord(character) != what
        if kind is sre.IN:
            is_negated = what[0][0] is sre.NEGATE
            return is_negated is not any(
                (part is sre.LITERAL and ord(character) == code)
                or (part is sre.RANGE and code[0] <= ord(character) <= code[1]) for part, code in what)
        return True


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])),
        st.builds("({}|{})".format, inner, inner))


PATTERNS = st.recursive(st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "a*", "b+", ".*", "[ab]?"]), repeated,
                        max_leaves=12)
TEXTS = st.one_of(
    st.text("ab", max_size=LONGEST), st.sampled_from(["a", "b", "ab", "ba"]).map(lambda part: part * LONGEST))


@given(pattern=st.one_of(PATTERNS, PATTERNS.map("^{}$".format), PATTERNS.map("{}~".format)), text=TEXTS)
@example("(a|b)*~", "ab" * LONGEST)
@example(".*a.*b~", "ab" * LONGEST)
def test_a_pattern_that_is_taken_takes_no_more_steps_than_is_said(pattern: str, text: str):
    if not is_bounded(pattern):
        return
    text = text[:LONGEST]
    most = 8 * len(pattern) * MOST_BRANCHES * (len(text) + 2) ** (MOST_LOOSE + 1)
    steps = Steps(text, most=most)
    steps.match(list(parser.parse(pattern)), 0, lambda place: True)
    assert steps.count <= most


EXPLODING = ("(a+)+~", "(a*)*~", "(a|a)*~", "(a|ab?)*~", "(aa?)*~", "a*a*a*a*a*a*~", "(.*a){12}~", "(a?){24}a{24}",
             "(x+x+)+y", "([ab]+b?)*~", "(a{1,9}){1,9}~", "((a|b)*a)*~", "(b(a*)?,)*~")
LOOKING_AT_NOTHING = (  # what ends matching counts characters, and these look at none at a text's end
    "(?:(?:(?:$){1000}){1000}){1000}", "((($|a){9}){9}){9}", r"(?:\B)?" * 24 + "(?=b)", "(?:(?!a))?" * 24 + "(?=b)",
    "(?:|)" * 24 + "(?=b)", "(?:|^)" * 24 + "(?=b)", "(?:(?!a)|$)" * 24 + "(?=b)", "(a*)?" * 24 + "(?=b)")


@pytest.mark.parametrize("pattern", EXPLODING + LOOKING_AT_NOTHING)
def test_a_pattern_that_explodes_is_not_taken(pattern: str):
    assert not is_bounded(pattern)


@pytest.mark.parametrize("pattern", [
    "", "^a+$", "[0-9]+", "(a)(b*)", r"^\d+\.\d+$", ".*disk.*full.*", r"^[\w.]+@[\w.]+\.\w+$", r"(\w+\s)*$",
    r"(\d{1,3}\.){3}\d{1,3}", "[^,]*,[^,]*,[^,]*", "(foo|bar|baz)", r"\[(\w+)\] (.*): (.*)$", "^(?!.*foo).*bar$",
    "(ab|ac)+", "\\s+$", "ü+[äö]x", r"(^|,)\s*x\s*(,|$)", r"(\d+)(\s*$)?", r"^(\w+(,|$))+", r"\b(foo)?\b",
])
def test_patterns_that_people_write_are_taken(pattern: str):
    assert is_bounded(pattern)
