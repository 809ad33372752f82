"""The chain that feeds a task being measured."""

from __future__ import annotations

import pytest

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.performance.feeding_chain import feed_of
from tests.scheduler.catalogue import TYPES


def joined(left: float, right: float) -> Dataflow:
    """Two sources and a task that both reach, along streams of these selectivities."""
    tasks = (Task("a", "sensors"), Task("b", "sensors", {"seed": 1}), Task("l", "scale", {"by": 1}),
             Task("r", "scale", {"by": 2}), Task("both", "scale", {"by": 3}), Task("end", "scale", {"by": 4}))
    streams = (Stream("a", "l"), Stream("b", "r"), Stream("l", "both", left), Stream("r", "both", right),
               Stream("both", "end"))
    return Dataflow("joined", tasks, streams, rates_per_s={"a": 10, "b": 10})


@pytest.mark.parametrize(("left", "right", "chain"), [(1, 2, ["b", "r"]), (2, 1, ["a", "l"]), (1, 1, ["a", "l"])])
def test_where_streams_join_the_one_with_the_most_events_feeds(left: float, right: float, chain: list[str]):
    dataflow = joined(left, right)
    assert [task.id for task in feed_of(dataflow, "both", task_types=TYPES)] == chain
    assert [task.id for task in feed_of(dataflow, "end", task_types=TYPES)] == [*chain, "both"]


def test_a_feed_is_configured_as_what_runs_is():
    source, scaled = feed_of(joined(1, 1), "both", task_types=TYPES)
    assert source.config["rate_per_s"] == 10 and source.config["city"] == "delft"
    assert scaled.config["options"] == {}


def test_a_source_feeds_itself():
    assert feed_of(joined(1, 1), "a", task_types=TYPES) == ()
