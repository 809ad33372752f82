"""How long copies that are on their way still take."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import Savepoint
from workers.engine.agents.node_files.node_store import CopyWishes
from workers.engine.agents.transport import parcels
from workers.engine.agents.transport.ahead import Sent
from workers.engine.agents.transport.copy_pace import WINDOW_BYTES, CopyPace
from workers.engine.agents.transport.copying import make_copies
from workers.engine.channels.channel_registry import Channels

from ...channels.played_redis import PlayedRedis
from ..test_state_copies import BEFORE, Side

MB = 1 << 20
LACKING = {"survives": 0, "copies": 1}


def left(pace: CopyPace, fragment: str = "f1-0", facts: dict = LACKING) -> int | None:
    return pace.with_times(fragment, facts).get("copy_left_ms")


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


def test_how_long_a_large_copy_still_takes_is_told_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "WINDOW", 1)  # so that a small one takes several looks
    broker = PlayedRedis()
    Channels(broker).open_channel("f1-0.0", schema_json="{}")
    owner, holder = Side(broker, tmp_path / "n1", "n1"), Side(broker, tmp_path / "n2", "n2")
    owner.node_store.write_copy_wishes(CopyWishes({BEFORE.id: ("n2",)}, {}, ("n1", "n2")))
    holder.node_store.write_copy_wishes(CopyWishes({}, {BEFORE.id: "n1"}, ("n1", "n2")))
    owner.has_done(0, '{"f1-0.0":"2-0"}')
    assert owner.turn(BEFORE) == [("n2",)]
    make_copies(owner.store, ("f1-1--n2",), Savepoint(
        offsets={"f1-0.0": Offset("2-0")}, states={"t": [Random(1).randbytes(1 << 19).hex()]}, repeats=1))
    answers = []
    while not answers or answers[-1].get("survives") == 0:
        assert owner.turn(BEFORE) == [] and len(answers) < 20
        answers.append(owner.copies.facts_of(BEFORE.id))
        holder.turn()
    left_ms = [facts.get("copy_left_ms") for facts in answers]
    assert left_ms[0] is None and left_ms[-1] is None
    assert left_ms[1:-1] == sorted(left_ms[1:-1], reverse=True) and left_ms[1] > 0
    assert left_ms[1] == pytest.approx(1_000 * (len(answers) - 2), abs=1_000), "as long as it then took, to a look"
