"""What a batch sees of its fragment's control: outlets, tails and routes change between two batches, once for all."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import Route

from ..reference import Control
from .rig import Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@dataclass(frozen=True)
class View:
    """What a batch sees at one position."""

    publishes: bool
    passes: bool
    routes: list[dict[str, float]]


@pytest.fixture(params=["java", "reference"])
def view(request: pytest.FixtureRequest, rig: Rig, broker) -> Callable[..., View]:
    """What a batch of the fragment ``f`` sees at a position, by the valves and by the reference for played queries."""
    runs = itertools.count()  # a batch that is repeated is one of another start of the query

    def java(batch: int, position: int = 0) -> View:
        return View(**json.loads(rig.probe.control(rig.config.redis_url, "f", f"run {next(runs)}", batch, position)))

    def reference(batch: int, position: int = 0) -> View:
        control = Control.read(broker, "f", batch)
        return View(control.publishes(position), control.passes(position), control.routes(position))

    return {"java": java, "reference": reference}[request.param]


@pytest.fixture
def channels(rig: Rig) -> Channels:
    return rig.channels


def test_an_outlet_opens_at_the_next_batch_and_the_same_way_when_repeated(view, channels) -> None:
    channels.open_outlet("f", 2)
    assert not view(7, 2).publishes
    assert channels.control("f")["2:from"] == "8"
    assert view(8, 2).publishes
    assert not view(7, 2).publishes
    assert not view(8, 1).publishes


def test_an_outlet_opened_before_the_start_publishes_the_first_batch(view, channels) -> None:
    channels.open_outlet("f", 0, from_batch=0)
    assert view(0, 0).publishes


def test_opening_what_is_open_does_not_move_its_boundary(view, channels) -> None:
    channels.open_outlet("f", 0, from_batch=0)
    assert not channels.open_outlet("f", 0)
    assert view(0, 0).publishes


def test_an_outlet_opened_again_has_a_new_boundary(view, channels) -> None:
    channels.open_outlet("f", 0, from_batch=0)
    channels.close_outlet("f", 0)
    assert not view(5, 0).publishes
    assert channels.open_outlet("f", 0)
    assert not view(6, 0).publishes
    assert view(7, 0).publishes


def test_a_tail_closes_at_the_next_batch(view, channels) -> None:
    channels.close_tail("f", 1)
    assert view(3, 1).passes
    assert [view(4, position).passes for position in range(3)] == [True, False, False]


def test_a_tail_closes_at_the_batch_that_is_repeated_where_that_is_said(view, channels) -> None:
    assert all(view(4, position).passes for position in range(3))
    channels.close_tail("f", 1)
    assert view(4, 1).passes, "the batch boundary is behind the batch that has begun"
    assert channels.close_tail("f", 1, from_batch=4)
    assert [view(4, position).passes for position in range(3)] == [True, False, False]
    assert not channels.close_tail("f", 1, from_batch=4)


@pytest.mark.parametrize("second", [0, 2])
def test_until_a_new_tail_begins_the_old_one_stays_closed(view, channels, second) -> None:
    channels.close_tail("f", 1)
    view(3)
    assert channels.close_tail("f", second)
    assert [view(9, position).passes for position in range(2)] == [True, False]
    assert [view(10, position).passes for position in range(3)] == [position < second for position in range(3)]


def test_an_opened_tail_passes_everything(view, channels) -> None:
    channels.close_tail("f", 0)
    view(3)
    assert channels.open_tail("f")
    assert not channels.open_tail("f")
    assert all(view(4, position).passes for position in range(3))


def test_closing_the_same_tail_again_changes_nothing(view, channels) -> None:
    channels.close_tail("f", 1)
    view(3)
    assert not channels.close_tail("f", 1)
    assert not view(4, 1).passes


def parts_of(view: Callable[..., View], batch: int, position: int = 1) -> list[tuple[str, ...]]:
    """The parts that a batch deals its events out to, for each divided reader."""
    return [tuple(weights) for weights in view(batch, position).routes]


def test_weights_hold_from_the_next_batch_on_and_the_same_way_when_repeated(view, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    assert parts_of(view, 7) == [("f.1@r",)]
    assert channels.route("f", 1, "r", {"r": 0.25, "s": 0.75})
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=None, effective=False)
    assert parts_of(view, 7) == [("f.1@r",)]
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=8, effective=False)
    assert parts_of(view, 7) == [("f.1@r",)]
    assert parts_of(view, 8) == [("f.1@r", "f.1@s")]
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=8, effective=True)
    assert parts_of(view, 8) == [("f.1@r", "f.1@s")]
    assert parts_of(view, 8, position=0) == []


def test_what_no_batch_was_decided_by_is_overwritten(view, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.route("f", 1, "r", {"s": 1})
    channels.route("f", 1, "r", {"t": 1})
    assert parts_of(view, 3) == [("f.1@r",)]
    assert parts_of(view, 4) == [("f.1@t",)]


def test_a_bundle_of_weight_nothing_gets_nothing(view, channels) -> None:
    channels.route("f", 1, "r", {"r": 0, "s": 0.5}, from_batch=0)
    assert parts_of(view, 0) == [("f.1@s",)]
    assert channels.routed("f", 1, "r").partitioning == {"r": 0, "s": 0.5}


def test_a_route_ends_at_a_boundary_and_leaves_nothing(view, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.unroute("f", 1, "r")
    assert parts_of(view, 5) == [("f.1@r",)]
    assert channels.routed("f", 1, "r") == Route({}, from_batch=6, effective=False)
    assert parts_of(view, 6) == []
    assert channels.routed("f", 1, "r") is None


def test_several_readers_and_positions_do_not_mix(view, channels) -> None:
    channels.route("f", 1, "r", {"r": 1, "r2": 1}, from_batch=0)
    channels.route("f", 1, "s", {"s": 1}, from_batch=0, channel="old.3")
    channels.route("f", 11, "r", {"r": 1}, from_batch=0)
    assert parts_of(view, 0) == [("f.1@r", "f.1@r2"), ("old.3@s",)]
    assert parts_of(view, 0, position=11) == [("f.11@r",)]
    assert set(channels.routes("f")) == {(1, "r"), (1, "s"), (11, "r")}
    channels.unroute("f", 1, "s")
    channels.activate("f", done_batch=0)
    assert set(channels.routes("f")) == {(1, "r"), (11, "r")}


def test_what_is_at_rest_is_settled_without_events(view, channels) -> None:
    channels.open_outlet("f", 0)
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.route("f", 1, "r", {"s": 1})
    channels.activate("f", done_batch=41)
    assert channels.routed("f", 1, "r") == Route({"s": 1}, from_batch=42, effective=True)
    assert channels.control("f")["0:from"] == "42"


STEPS = st.lists(st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["ab", "bc", "c", ""])),
    st.tuples(st.just("batch"), st.just("")),
    st.tuples(st.just("again"), st.just("")),
), max_size=25)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_batch_is_decided_once_for_all(view, broker, channels, steps) -> None:
    """Whatever is asked for and when: a repeated batch is divided as it was, the next one as was asked before it."""
    broker.flushall()
    batch, decided, bundles_asked = 0, None, ""
    for what, bundles in steps:
        if what == "ask":
            bundles_asked = bundles
            if bundles:
                channels.route("f", 1, "r", dict.fromkeys(bundles, 1.0))
            else:
                channels.unroute("f", 1, "r")
        elif what == "again" and decided is not None:
            assert parts_of(view, batch) == decided
        elif what == "batch":
            batch += 1
            seen = parts_of(view, batch)
            route = channels.routed("f", 1, "r")
            if route is not None and route.effective:
                assert seen == [tuple(f"f.1@{bundle}" for bundle in bundles_asked)]
            decided = seen
    view(batch + 1)  # sees what was asked for last
    final = parts_of(view, batch + 2)
    assert final == ([tuple(f"f.1@{bundle}" for bundle in bundles_asked)] if bundles_asked else [])
