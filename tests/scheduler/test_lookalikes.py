"""Skeletons of names: what looks alike is alike, and what is a name of its own stays one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.lookalikes import skeleton


@pytest.mark.parametrize("name, looks_like", [
    ("\u0441\u0430\u0433\u04cf\u0430", "carla"), ("c\u0251rla", "carla"), ("\uff23ARLA", "carla"),
    ("\u0420\u0410\u0423\u0410", "PAYA"), ("\u0391\u039d\u039d\u0391", "Anna"), ("\u03bd\u03b1\u03bf", "vao"),
    ("\u0585\u057d\u0578\u0570", "ounh"), ("\u13aa\u13a2", "AT"), ("\ua4e1\ua4f2\ua4e2\ua4ee", "LISA"),
    ("\u2c9f\u2ca3", "op"), ("\u0441\u0430\u0301f", "c\u00e1f"),
])
def test_what_looks_alike_has_one_skeleton(name: str, looks_like: str) -> None:
    assert skeleton(name) == skeleton(looks_like)


@pytest.mark.parametrize("one, other", [
    ("\u0418\u0432\u0430\u043d", "Ivan"), ("\u0410\u043d\u043d\u0430", "Anna"), ("al", "a1"), ("rn", "m"),
    ("\u039d\u03af\u03ba\u03bf\u03c2", "Nikos"), ("\u3042\u304d", "aki"), ("Jos\u00e9", "Jose")])
def test_names_that_are_told_apart_have_two(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


@given(st.text("abcxyz09._-@+", max_size=20))
def test_usual_letters_are_their_own_skeleton(name: str) -> None:
    assert skeleton(name.upper()) == skeleton(name) == name
