"""Fragments that take over channels of others: where their streams are, and what their JSON says."""

import json

import pytest

from scheduler.model.encoding import fragment_from_data, to_json
from scheduler.model.estate import Estate, Fragment

HEIR = Fragment(
    "f5-0", ("a", "b", "c"), "n1/0", 3, {"b": ("f2-0",)}, channels={"b": "f1-0.1"}, inherits=("f1-0", "f1-1"),
    joins={"z": "oldest"},
)


def test_a_stream_stays_in_the_channel_that_was_taken_over():
    estate = Estate(fragments={"f5-0": HEIR})
    assert [HEIR.channel_of(task) for task in "abc"] == ["f5-0.0", "f1-0.1", "f5-0.2"]
    assert [estate.channel_of(task) for task in "abc"] == ["f5-0.0", "f1-0.1", "f5-0.2"]


@pytest.mark.parametrize("fragment", [HEIR, Fragment("f1-0", ("a",), "n1/0", 1, {}), Fragment(
    "f1-0", ("a", "b", "c"), "n1/0", 1, {"a": ("f1-1",)}, resting=1)])
def test_json_gives_the_fragment_back(fragment):
    assert fragment_from_data(json.loads(to_json(fragment))) == fragment


def test_what_a_fragment_does_not_have_is_not_in_its_json():
    assert json.loads(to_json(Fragment("f1-0", ("a",), "n1/0", 1))) == {
        "active": 1, "id": "f1-0", "outlets": {}, "slot": "n1/0", "tasks": ["a"],
    }
