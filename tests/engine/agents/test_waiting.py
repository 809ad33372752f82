"""How many events wait for a query: a few blocks are counted, many are estimated."""

from __future__ import annotations

import pytest
import redis

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from scheduler.model.task_types import TaskType
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.waiting import reads_of, waiting_events

pytestmark = pytest.mark.broker

TYPES = {
    "src": TaskType("src", "source", "", "a:b"), "mark": TaskType("mark", "transform", "", "a:b"),
    "live": TaskType("live", "source", "", "a:b", connector="a:b")}


@pytest.mark.parametrize(("batches", "read_to", "expected"), [
    (0, None, 0), (3, None, 6), (3, "2-0", 2), (3, "3-0", 0), (40, None, 80), (40, "10-0", 60), (40, "38-0", 4)])
def test_what_waits_for_a_reader_is_counted_or_estimated(
    broker: redis.Redis, batches: int, read_to: str | None, expected: int
) -> None:
    channels = Channels(broker)
    channels.open_channel("a.0", schema_json="{}", readers=["r", "s"])
    token = channels.take_fence("a.0")
    for batch in range(1, batches + 1):
        names = [keys.channel("a.0"), keys.meta("a.0"), keys.readers("a.0")]
        scripts.run(broker, "write", names, [token, batch, 0, 2, b"two events", 0])
    if read_to:
        channels.commit("a.0", "r", read_to)
    assert waiting_events(broker, {"r": ["a.0", "b.0"], "q": ["a.0"]}) == {"r": expected}
    assert waiting_events(broker, {}) == {}


def test_each_query_waits_for_its_own_parts() -> None:
    tasks = {
        "s": RunningTask("s", "src", {}, ()), "l": RunningTask("l", "live", {}, ()),
        "a": RunningTask("a", "mark", {}, ("s",)), "b": RunningTask("b", "mark", {}, ("a", "l"))}
    bundles = (RunningBundle("f1-1", "n1/0", weight=0.5), RunningBundle("f2-0", "n1/1", weight=0.5, root="f1-5"))
    fragments = {fragment.id: fragment for fragment in (
        Fragment("f1-0", ("s",), "n1/0", 1, {"s": ("f1-1",)}), Fragment("f1-3", ("l",), "n1/0", 1, {"l": ("f1-2",)}),
        Fragment("f1-1", ("a",), "n1/0", 1, {"a": ("f1-2",)}, bundles=bundles),
        Fragment("f1-2", ("b",), "n1/0", 1))}
    estate = Estate(tasks=tasks, fragments=fragments)
    assert reads_of(estate, fragments.values(), TYPES) == {
        "f1-1": ("f1-0.0@f1-1",), "f2-0": ("f1-0.0@f1-5",), "f1-2": ("f1-1.0", "f1-5.0", "f1-3.0"),
        "f1-3": ("in-l.0",)}
