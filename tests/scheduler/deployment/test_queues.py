"""Queues: whether one grows, and what a round does about it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.deployment.online import decide
from scheduler.deployment.queues import LEAST_BLOCKS, LEAST_POINTS, grows

from .test_online import SLOTS, USUAL, deployment, deployments


def behind(running, **queues: float):
    """The deployment in which ever more events wait for these bundles."""
    bundles = {
        name: replace(bundle, queue=queues[name], behind=True) if name in queues else bundle
        for name, bundle in running.bundles.items()}
    return replace(running, bundles=bundles)


@pytest.mark.parametrize(("waiting", "is_growing"), [
    ([0.0] * 30, False),
    ([40.0] * 30, False),
    ([float(number) for number in range(60)], True),
    ([float(number) for number in range(60, 0, -1)], False),
    ([0.0, 80.0] * 15, False),
    ([*[2.0] * 20, 200.0, *[2.0] * 9], False),
    ([0.5 * number for number in range(20)], False),
    ([100.0 + number for number in range(30)], False),
    ([math.nan, *map(float, range(0, 90, 3))], True),
    ([0.0, 40.0, 80.0], False),
])
def test_a_queue_grows_where_each_third_has_more_and_the_last_much_more(waiting: list[float], is_growing: bool) -> None:
    assert grows(waiting) is is_growing


@given(st.lists(st.floats(0, 256) | st.just(math.nan), max_size=60))
def test_what_grows_has_more_at_last_than_at_first_and_no_order_is_its_own_reverse(waiting: list[float]) -> None:
    if grows(waiting):
        lengths = [value for value in waiting if not math.isnan(value)]
        assert len(lengths) >= LEAST_POINTS and max(lengths) >= min(lengths) + LEAST_BLOCKS
        assert not grows(waiting[::-1])


@given(st.integers(0, 200), st.floats(1.0, 10.0))
def test_a_line_that_rises_grows(first: int, step: float) -> None:
    rising = [first + step * number for number in range(60)]
    before, last = ((rising[middle] + rising[middle + 1]) / 2 for middle in (9, 49))  # of the first and last twenty
    assert grows(rising) is (last >= max(1.5 * before, before + LEAST_BLOCKS))


def test_a_slot_whose_queues_grow_is_left_though_its_cpu_is_below_the_bound() -> None:
    running = deployment({"a": ("n1/0", 0.4), "b": ("n1/0", 0.3)})
    assert decide(running, USUAL).case == "settled"
    turn = decide(behind(running, b=1200.0), USUAL)
    assert turn.case == "balance" and turn.move is not None and turn.move.bundles == ("b",)
    assert turn.why == "n1/0 needs 0.70 cores, and 1,200 events wait for b, more and more."


def test_what_waits_elsewhere_in_the_slot_is_told_where_another_bundle_goes() -> None:
    running = behind(deployment({"a": ("n1/0", 0.4), "b": ("n1/0", 0.3)}), a=50.0)
    fixed = replace(running, bundles={**running.bundles, "a": replace(running.bundles["a"], movable=False)})
    turn = decide(fixed, USUAL)
    assert turn.move is not None and turn.move.bundles == ("b",)
    assert turn.why == "n1/0 needs 0.70 cores, and 50 events wait there, more and more."


def test_among_equals_the_bundle_with_the_longer_queue_goes_first() -> None:
    running = deployment({"a": ("n1/0", 0.3), "b": ("n1/0", 0.3), "c": ("n1/0", 0.3)})
    assert decide(running, USUAL).move.bundles == ("c",), "by name"
    assert decide(behind(running, a=500.0, b=900.0), USUAL).move.bundles == ("b",)
    passing = replace(running, bundles={**running.bundles, "a": replace(running.bundles["a"], queue=900.0)})
    assert decide(passing, USUAL).move.bundles == ("c",), "what waits for a moment decides nothing"


def test_a_slot_that_has_little_to_do_is_not_left_for_its_queues() -> None:
    """Its CPU is not what its events wait for: another slot would not help."""
    assert decide(behind(deployment({"a": ("n1/0", 0.3)}), a=900.0), USUAL).case == "settled"


def test_where_queues_grow_and_no_slot_has_room_that_is_told() -> None:
    everywhere = {name: (slot, 0.6) for name, slot in zip("abcde", SLOTS, strict=True)}
    turn = decide(behind(deployment(everywhere), a=900.0), USUAL)
    assert (turn.case, turn.lacking) == ("lacking", 0.0)


@given(deployments(), st.data())
def test_queues_change_nothing_where_none_grows(running, data) -> None:
    queues = {name: data.draw(st.sampled_from([0.0, 5.0, 900.0])) for name in running.bundles}
    waiting = replace(running, bundles={
        name: replace(bundle, queue=queues[name]) for name, bundle in running.bundles.items()})
    assert decide(waiting, USUAL) == decide(running, USUAL)


@given(deployments(), st.data())
def test_nothing_goes_where_queues_grow(running, data) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(running.bundles)), unique=True))
    waiting = behind(running, **dict.fromkeys(names, 100.0))
    turn = decide(waiting, USUAL)
    if turn.move is not None:
        assert turn.move.target not in waiting.queues
