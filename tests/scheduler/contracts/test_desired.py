"""Desired states: those of earlier versions read, and earlier agents find what they ask for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import DESIRED_STATES, WANTED_FRAGMENTS, ChannelWriter, DesiredState, Input

# As the site of af0fdcb wrote it.
OLD = {
    "version": 12, "node": "n1", "generation": 12,
    "slots": {
        "0": {"fragments": [{
            "id": "f3-0", "tasks": [{"id": "a", "type": "urban_sensing", "config": {"seed": 7, "x": [1, None]}}],
            "inputs": [], "outlets": {"0": ["f5-1", "f4-0"], "1": []}, "active": 1, "trigger_ms": 250,
            "inherits": ["f2-0"], "channels": {"0": "f2-0.1"}, "heirs": {"f4-0": ["f1-0"]},
            "joins": {"0": {"f5-1": "oldest"}}}]},
        "1": {"fragments": [{
            "id": "f5-1", "tasks": [{"id": "b", "type": "average", "config": {}}], "threads": 3, "active": 1,
            "inputs": [
                {"channel": "f1-0.2@f5-1", "task": "p"}, {"channel": "f4-7.2@f5-1", "task": "p", "ending": True}],
            "outlets": {}, "routes": {"0": {"f6-0": {"f6-0": 0.25, "f6-3": 0.75}}}, "leaving": True,
            "writers": {"f1-0.2@f5-1": ["f1-0", 2, "f5-0"]}}]},
    },
    "handing_over": {"0": [{"id": "f2-0", "tasks": [], "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 500}]},
}


def test_a_desired_state_of_an_earlier_version_reads() -> None:
    desired = DESIRED_STATES.loads(json.dumps(OLD))
    [first], [second] = desired.of_slot("0"), desired.of_slot("1")
    assert first.outlets == {0: {"f4-0", "f5-1"}} and first.channel(0) == "f2-0.1" and first.trigger_ms == 250
    assert first.heirs == {"f4-0": ("f1-0",)} and first.joins == {0: {"f5-1": "oldest"}}
    assert first.tasks[0].config == {"seed": 7, "x": [1, None]}
    assert (second.threads, second.leaving, second.trigger_ms) == (3, True, 500)
    assert [item.ending for item in second.inputs] == [False, True] and second.inputs[0] == Input("f1-0.2@f5-1", "p")
    assert second.writers == {"f1-0.2@f5-1": ChannelWriter("f1-0", 2, "f5-0")}
    assert set(desired.outgoing) == {"f2-0"}


def test_what_is_written_reads_back_and_has_what_earlier_agents_ask_for() -> None:
    desired = DESIRED_STATES.read(OLD)
    document = DESIRED_STATES.document(desired)
    assert DESIRED_STATES.dumps(DESIRED_STATES.read(document)) == DESIRED_STATES.dumps(desired)
    for slot in document["slots"].values():
        for fragment in slot["fragments"]:
            assert {"id", "tasks", "inputs", "outlets", "active", "trigger_ms"} <= set(fragment)
    assert document["slots"]["0"]["fragments"][0]["outlets"] == {"0": ["f4-0", "f5-1"]}, "sorted, so that texts compare"
    assert "threads" not in document["slots"]["0"]["fragments"][0]
    assert DESIRED_STATES.document(DesiredState(1, "n1")) == {"version": 1, "node": "n1", "generation": 0, "slots": {}}


def test_what_a_later_version_adds_is_passed_over() -> None:
    later = {**OLD, "latency": {"limit_ms": 50}}
    assert DESIRED_STATES.read(later) == DESIRED_STATES.read(OLD)


@pytest.mark.parametrize(("document", "place"), [
    ({"tasks": []}, "id"), ({"id": "f1-0", "tasks": [{"id": "a"}]}, "tasks/0/type"),
    ({"id": "f1-0", "tasks": [], "active": "all"}, "active"),
])
def test_garbage_is_refused_with_its_place(document: dict, place: str) -> None:
    with pytest.raises(InvalidContract) as refused:
        WANTED_FRAGMENTS.read(document)
    assert refused.value.facts["place"] == place


@pytest.mark.parametrize("name", [
    "../../../../home/u", "/home/u", "..", ".", "", "f1-0/../x", "f1-0\0", "*", "f1-0\n", "f" * 201])
@pytest.mark.parametrize("of", [
    lambda name: {"id": name, "tasks": []}, lambda name: {"id": "f1-0", "tasks": [], "inherits": [name]},
    lambda name: {"id": "f1-0", "tasks": [{"id": name, "type": "average", "config": {}}]},
    lambda name: {"id": "f1-0", "tasks": [], "inputs": [{"channel": name, "task": "s"}]},
    lambda name: {"id": "f1-0", "tasks": [], "channels": {"0": name}},
    lambda name: {"id": "f1-0", "tasks": [], "savepoints": [name]}])
def test_no_name_leads_out_of_the_folder_of_what_is_named_so(of: Callable[[str], dict], name: str) -> None:
    """A restored back-up may have any: of a fragment that is removed a folder goes, of a channel the spilled files."""
    with pytest.raises(InvalidContract):
        WANTED_FRAGMENTS.read(of(name))
    for desired in ({"slots": {"0": {"fragments": [of(name)]}}}, {"remote_heirs": {"n2": [of(name)]}},
                    {"slots": {name: {"fragments": []}}}, {"kept_savepoints": [name]}):
        with pytest.raises(InvalidContract):
            DESIRED_STATES.loads(json.dumps(desired))
