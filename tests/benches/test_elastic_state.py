"""The played ring grows with its rate and shrinks again, moves few keys, and loses what it said, no more."""

from __future__ import annotations

import json

import pytest

from tests.benches.elastic_state import main
from tests.benches.ring_world import RingWorld, WorldOf, lines_of_loss, summary


@pytest.mark.parametrize("by_load", [True, False])
def test_bundles_come_with_the_rate_and_go_with_it(by_load: bool) -> None:
    of = WorldOf(6, keys=5_000, skew=0.5, seconds=240, by_load=by_load)
    course = RingWorld(of, seed=3).play()
    assert course.bundles[0] == of.bundles < max(course.bundles) <= 4 * of.bundles
    assert course.bundles[-1] < max(course.bundles) and course.kinds["add"] and course.kinds["remove"]
    # A change is of one range, of which there are n: but for chance it has K/n keys, and of a share twice as many.
    assert max(course.moved) < 4
    assert course == RingWorld(of, seed=3).play(), "one seed is one course"

def test_keys_that_become_frequent_are_shared_with_neighbours() -> None:
    line = summary(WorldOf(12, keys=5_000, skew=0.5, factor=1.0, seconds=240), seed=1)
    assert line["share"] and line["queues below τ after s"] is not None and line["most"] < 18

@pytest.mark.parametrize("copies", [1, 2])
def test_losses_are_as_the_ring_says_beforehand(copies: int) -> None:
    lines = lines_of_loss(18, 3, copies=copies, seed=1)
    by_death = {line["dies"]: line for line in lines}
    assert [by_death[what]["ranges lost"] for what in (
        f"{copies} in a row", "one zone", "all but each last of r + 1")] == [0, 0, 0]
    assert by_death["one zone"]["most that one takes"] == 1, "all take over at the same time"
    assert by_death["all but each last of r + 1"]["dead"] == 18 * copies // (copies + 1)
    assert {line["survives"] for line in lines} == {
        f"any {('one', 'two')[copies - 1]} machine{'s' if copies > 1 else ''}, or zone z0, or zone z1, or zone z2"}

def test_the_bench_prints_both_tables(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "figures.json"
    assert main(["--bundles", "3", "--json", str(into)]) == 0
    written = json.loads(into.read_text())
    assert len(written["balance"]) == 4 and {line["bundles"] for line in written["losses"]} == {3}
    printed = capsys.readouterr().out
    assert "max/mean before" in printed and "messages to find" in printed
