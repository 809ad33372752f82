"""How long copies that are on their way still take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.agents.transport.ahead import Sent
from workers.engine.agents.transport.copy_pace import WINDOW_BYTES, CopyPace

MB = 1 << 20
LACKING = {"survives": 0, "copies": 1}


def left(pace: CopyPace, fragment: str = "f1-0", facts: dict = LACKING) -> int | None:
    return pace.told(fragment, facts).get("copy_left_ms")


def goes(pace: CopyPace, name: str, lefts: list[int], *, every_ms: int = 500, from_ms: int = 0) -> int:
    """A copy of which so much is left at each look; when the last look was."""
    for number, left_bytes in enumerate(lefts):
        now_ms = from_ms + number * every_ms
        pace.noted(name, Sent(has_copy=True, is_stored=not left_bytes, left_bytes=left_bytes), at_ms=now_ms)
    return now_ms


@given(
    step=st.integers(1, 2 * WINDOW_BYTES), looks=st.integers(2, 60), rest=st.integers(0, 58),
    every_ms=st.integers(1, 5_000),
)
def test_what_goes_evenly_takes_as_long_as_it_will(step: int, looks: int, rest: int, every_ms: int) -> None:
    rest, pace = min(rest, looks - 1), CopyPace()
    goes(pace, "f1-0--n2", [step * number for number in range(looks, rest - 1, -1)], every_ms=every_ms)
    assert left(pace) == pytest.approx(rest * every_ms, abs=1)


def test_nothing_is_said_without_a_figure() -> None:
    pace = CopyPace()
    assert left(pace) is None
    pace.noted("f1-0--n2", Sent(), at_ms=0)
    assert left(pace) is None, "it is not made yet"
    goes(pace, "f1-0--n2", [40 * MB])
    assert left(pace) is None, "nobody has taken anything"
    goes(pace, "f2-0--n2", [9_000, 0])
    assert left(pace) is None, "what is small says nothing of what is large"
    now_ms = goes(pace, "f1-0--n2", [32 * MB], from_ms=500)
    assert left(pace) == 2_000
    goes(pace, "f1-0--n2", [32 * MB] * 4, from_ms=now_ms + 500)
    assert left(pace) == 10_000, "it has stood still since"
    assert left(pace, facts={"survives": 1, "copies": 1}) is None, "it lacks none"


def test_copies_go_beside_each_other_and_the_last_one_counts() -> None:
    pace = CopyPace()
    goes(pace, "f1-0--n2", [24 * MB, 16 * MB])
    goes(pace, "f1-0--n3", [40 * MB, 32 * MB])
    goes(pace, "f2-0--n3", [80 * MB, 72 * MB])
    assert (left(pace), left(pace, "f2-0")) == (2_000, 4_500)
    goes(pace, "f1-0--n4", [16 * MB], from_ms=500)
    pace.noted("f1-0--n5", Sent(), at_ms=500)
    assert left(pace) is None, "one of its copies is not made yet"
    pace.keep({"f1-0--n2"})
    assert (left(pace), left(pace, "f2-0")) == (1_000, None)
