"""A query that is to leave channels out may read them until it is started anew, on whichever node it is."""

from __future__ import annotations

from dataclasses import replace

from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.model.dataflow import Task
from workers.engine.agents.supervising import key_patterns

READER = WantedFragment("f1-4", (Task("t", "filter"),))


def reading(*channels: str) -> WantedFragment:
    return replace(READER, inputs=tuple(Input(name, "heavy") for name in channels))


def records(*channels: str, earlier: dict[str, WantedFragment]) -> dict[str, WantedFragment]:
    """What an agent knows once it is told that the query reads these channels."""
    state = DesiredState(slots={"0": WantedSlot((reading(*channels),))})
    return key_patterns.known_fragments(state, earlier=earlier.values())


def test_what_was_read_before_is_let_as_long_as_the_query_is_recorded() -> None:
    fragments = records("f8-3.0", earlier=records("f8-1.0", "f8-3.0", earlier=records("f8-1.0", "f8-2.0", earlier={})))
    patterns = key_patterns.of_fragments(fragments.values())
    assert {pattern for name in ("f8-1.0", "f8-2.0", "f8-3.0") for pattern in key_patterns.of_channel(name)} <= patterns
    assert records("f8-3.0", earlier=fragments) == fragments
    assert records("f8-3.0", earlier={}) == {"f1-4": reading("f8-3.0")}


def test_no_more_than_the_last_ones_are_let() -> None:
    fragments: dict[str, WantedFragment] = {}
    for number in range(100):
        fragments = records(f"f{number}-0.0", earlier=fragments)
    names = [item.channel for item in fragments["f1-4"].inputs]
    assert names == [f"f{number}-0.0" for number in range(99, 98 - key_patterns.MOST_LEFT_OUT, -1)]
