"""Newest events of a stream whose task is divided, and of one that changes its query while somebody looks.

What is shown of which query is in ``tests/dashboard/test_streams.py``.
"""

from __future__ import annotations

import os
import signal

import pytest

from workers.engine.channels import block_codec, keys
from workers.engine.taps import Tapped, newest_events

from .flow import Flow, bundle
from .rig import Rig
from .test_handover import check_out, fragment, grown, publish

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("afterwards_nothing")]
COUNT = 5


def shown(rig: Rig, stream: Tapped) -> list[int]:
    """The numbers of the events that somebody sees who looks now."""
    return [event["_seq"] for event in newest_events(rig.broker, stream, count=COUNT).events]


def copied(rig: Rig, task: str, query: str) -> set[int]:
    """The numbers of all that the valve of one query copied of a stream."""
    blocks = rig.broker.lrange(keys.tapped(task, query), 0, -1)
    return {
        seq for block in blocks for batch in block_codec.decode_block(block)
        for seq in batch.column("_seq").to_pylist()}


def test_events_of_all_queries_of_a_divided_task_show_together_also_after_a_slot_died(rig: Rig) -> None:
    queries = ["tp1-1", "tp1-4"]
    flow = Flow(rig, "tp", [bundle(queries[0], 0, 1, 0.9), bundle(queries[1], 1, 1, 0.1)], [bundle("tp1-2", 1)])
    flow.publish()
    rig.wait_running("tp1-0", *queries, "tp1-2", "tp1-3")
    stream = Tapped("tp-python", queries)

    def both_beyond(reached: int) -> list[int]:
        """What is shown, where at least two events of each query are, all with greater numbers."""
        seen = shown(rig, stream)
        of_each = [set(seen) & copied(rig, stream.task, query) for query in queries]
        return seen if all(len(numbers) >= 2 and min(numbers) > reached for numbers in of_each) else []

    seen = rig.wait(lambda: both_beyond(-1), what="events of both")
    assert len(seen) == len(set(seen)) == COUNT
    pid = rig.slot_pid("1")
    os.kill(pid, signal.SIGKILL)
    assert shown(rig, stream), "what was copied stays"
    rig.wait(lambda: rig.slot_pid("1") not in (None, pid), what="the slot is back")
    rig.wait(lambda: both_beyond(max(seen)), what="new events of both")
    flow.grows()
    flow.check()


def test_a_stream_is_seen_all_the_while_that_its_query_hands_over(rig: Rig) -> None:
    chain = ("count", "t1", "shift", "t2", "out")
    publish(rig, fragment("tq1-0", *chain))
    rig.wait_running("tq1-0")
    rig.wait(lambda: shown(rig, Tapped("t1", ["tq1-0"])), what="events before")
    publish(
        rig, fragment("tq2-0", *chain[:2], outlets={"t1": ("tq2-1",)}, inherits=("tq1-0",)),
        fragment("tq2-1", *chain[2:], slot=1, channels={"out": "tq1-0.4"}, inherits=("tq1-0",)))
    after, newest = Tapped("t1", ["tq2-0"], earlier=["tq1-0"]), -1

    def goes_on() -> bool:
        nonlocal newest
        seen = shown(rig, after)
        assert seen and max(seen) >= newest, "what was shown goes away"
        newest = max(seen)
        return set(seen) <= copied(rig, after.task, "tq2-0")

    rig.wait(goes_on, what="only events of the next query")
    grown(rig, "tq1-0.4")
    check_out(rig.events("tq1-0.4"))
