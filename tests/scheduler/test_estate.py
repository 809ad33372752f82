"""Fragments that take over channels of others: where their streams are, and what their JSON says."""

import json

import pytest

from scheduler.model.encoding import to_json, value_of
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.usage import SlotLoad

HEIR = Fragment(
    "f5-0", ("a", "b", "c"), "n1/0", 3, {"b": ("f2-0",)}, channels={"b": "f1-0.1"}, inherits=("f1-0", "f1-1"),
    joins={"z": "oldest"},
)
DIVIDED = Fragment(
    "f1-0", ("a",), "n1/0", 1, {"a": ("f2-0",)}, bundles=(
        RunningBundle("f1-0", "n1/0", threads=3, weight=0.75), RunningBundle("f4-2", "n2/1", weight=0.25),
        RunningBundle("f3-1", "n2/1", threads=2, weight=0.0)),
)


def test_a_stream_stays_in_the_channel_that_was_taken_over():
    estate = Estate(fragments={"f5-0": HEIR})
    assert [HEIR.channel_of(task) for task in "abc"] == ["f5-0.0", "f1-0.1", "f5-0.2"]
    assert [estate.channel_of(task) for task in "abc"] == ["f5-0.0", "f1-0.1", "f5-0.2"]


@pytest.mark.parametrize("fragment", [HEIR, DIVIDED, Fragment("f1-0", ("a",), "n1/0", 1, {}), Fragment(
    "f1-0", ("a", "b", "c"), "n1/0", 1, {"a": ("f1-1",)}, resting=1)])
def test_json_gives_the_fragment_back(fragment):
    assert value_of(Fragment, json.loads(to_json(fragment))) == fragment


def test_what_a_fragment_does_not_have_is_not_in_its_json():
    assert json.loads(to_json(Fragment("f1-0", ("a",), "n1/0", 1))) == {
        "active": 1, "id": "f1-0", "outlets": {}, "slot": "n1/0", "tasks": ["a"],
    }


def test_a_divided_fragment_has_a_channel_for_each_of_its_bundles():
    assert DIVIDED.channels_of("a") == ("f1-0.0", "f4-2.0", "f3-1.0"), "what leaves is read to its end"
    assert HEIR.channels_of("b") == ("f1-0.1",)
    assert HEIR.queries == (RunningBundle("f5-0", "n1/0"),) and DIVIDED.queries == DIVIDED.bundles
    assert DIVIDED.divided and not HEIR.divided


def test_each_bundle_loads_its_slot_with_its_part():
    estate = Estate(
        tasks={"a": RunningTask("a", "t", {}, (), cores=0.4)}, fragments={"f1-0": DIVIDED},
        slots=(Slot("n1", 0), Slot("n2", 0), Slot("n2", 1)))
    assert estate.loads == {"n1/0": SlotLoad(1, 300_000_000, 1), "n2/1": SlotLoad(2, 100_000_000, 2)}
    assert [slot.name for slot, _ in estate.least_loaded(3, query_cores=0.0, apart=True)] == ["n2/0"]
    whole = Estate(tasks=estate.tasks, fragments=estate.fragments, slots=(Slot("n1", 0), Slot("n2", 1)))
    assert [slot.name for slot, _ in whole.least_loaded(1, query_cores=0.0, apart=True)] == ["n2/1"]
    assert [slot.name for slot, _ in estate.least_loaded(1, query_cores=0.0)] == ["n2/0"]
    assert [cores for _, cores in estate.least_loaded(3, query_cores=0.1)] == pytest.approx([0.4, 0.0, 0.3])
