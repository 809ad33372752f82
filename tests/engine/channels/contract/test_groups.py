"""A stream that several channels carry is one source, and they may be others when the query starts again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def write(rig: Rig, fragment: str, *, first: int, limit: int, readers: tuple[str, ...] = ("g",)) -> StreamingQuery:
    """A query that publishes ``limit`` numbers from ``first`` on, a hundred in a batch."""
    ticks = rig.with_config(max_rows=100).ticks(fragment, rate_per_s=10_000, limit=limit)
    numbers = ticks.withColumn("_seq", F.col("_seq") + first)
    return rig.start(rig.publish(numbers, fragment, readers=readers), fragment)


def read(rig: Rig, *channels: str, **options) -> StreamingQuery:
    """A copy of the stream that these channels carry."""
    return rig.start(rig.publish(rig.read("g", list(channels), **options), "g"), "g")


def last_offsets(checkpoint: Path) -> list[str]:
    newest = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    return (checkpoint / "offsets" / str(newest)).read_text().splitlines()[2:]


def test_channels_of_one_stream_are_one_source_and_may_come_and_go(rig: Rig) -> None:
    writers = [write(rig, "a", first=0, limit=400)]
    only = read(rig, "a.0")
    wait_until(lambda: len(rig.events("g.0")) == 400, what="the first channel", alive=(only, *writers))
    only.stop()

    writers.append(write(rig, "b", first=10_000, limit=500))
    wait_until(lambda: rig.channels.info("b.0").blocks, what="the second channel", alive=writers)
    both = read(rig, "b.0", "a.0")
    wait_until(lambda: len(rig.events("g.0")) == 900, what="both channels", alive=(both, *writers))
    wait_until(lambda: rig.channels.info("b.0").blocks == 0, what="freed blocks", alive=(both,))
    both.stop()
    [offset] = last_offsets(rig.folder / "checkpoint-g")
    assert json.loads(offset) == {name: rig.channels.info(name).last for name in ("a.0", "b.0")}

    writers.append(write(rig, "c", first=20_000, limit=300))
    wait_until(lambda: rig.channels.info("c.0"), what="the third channel", alive=writers)
    rest = read(rig, "b.0", "c.0")
    wait_until(lambda: len(rig.events("g.0")) == 1_200, what="the third channel", alive=(rest, *writers))
    numbers = rig.numbers("g.0")
    assert numbers[:400] == list(range(400))
    assert [number for number in numbers if 10_000 <= number < 20_000] == list(range(10_000, 10_500))
    assert [number for number in numbers if number >= 20_000] == list(range(20_000, 20_300))


@pytest.mark.long
def test_a_channel_that_is_not_read_to_its_end_cannot_be_left_out(rig: Rig) -> None:
    first = write(rig, "a", first=0, limit=400)
    reader = read(rig, "a.0")
    wait_until(lambda: len(rig.events("g.0")) == 400, what="the first channel", alive=(first, reader))
    reader.stop()
    first.stop()
    more = write(rig, "a", first=0, limit=500)
    wait_until(lambda: len(rig.events("a.0")) >= 100, what="events that nobody has read", alive=(more,))
    write(rig, "b", first=10_000, limit=100)
    wait_until(lambda: rig.channels.info("b.0"), what="the other channel")
    other = read(rig, "b.0")
    wait_until(lambda: not other.isActive, what="the failure")
    assert "WEIRGAP channel a.0 is no longer read by g" in str(other.exception())
    assert rig.numbers("g.0") == list(range(400))


@pytest.mark.long
def test_a_batch_that_was_planned_with_other_channels_is_repeated_with_them(rig: Rig) -> None:
    writers = [
        write(rig, name, first=first, limit=300, readers=("g", "kept")) for name, first in (("a", 0), ("b", 10_000))
    ]
    # Small batches: the first one begins where the reader is registered, and not where the checkpoint says.
    reader = read(rig.with_config(max_rows=200), "a.0", "b.0")
    wait_until(lambda: len(rig.events("g.0")) == 600, what="both channels", alive=(reader, *writers))
    reader.stop()
    commits = rig.folder / "checkpoint-g" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()  # as if the driver had died behind the batch
    before = rig.channels.info("g.0").duplicates
    write(rig, "c", first=20_000, limit=100)
    wait_until(lambda: rig.channels.info("c.0"), what="another channel")
    again = read(rig, "c.0")
    wait_until(lambda: len(rig.events("g.0")) == 700, what="the other channel", alive=(again,))
    assert rig.channels.info("g.0").duplicates > before
    numbers = rig.numbers("g.0")
    assert sorted(numbers) == [*range(300), *range(10_000, 10_300), *range(20_000, 20_100)]


@pytest.mark.long
def test_a_channel_that_comes_needs_a_registered_reader(rig: Rig) -> None:
    write(rig, "a", first=0, limit=100)
    write(rig, "b", first=100, limit=100, readers=("other",))
    wait_until(lambda: rig.channels.info("b.0"), what="the second channel")
    reader = read(rig, "a.0", "b.0")
    wait_until(lambda: not reader.isActive, what="the failure")
    assert "'g' is not a reader of channel b.0" in str(reader.exception())


@pytest.mark.long
def test_a_batch_takes_no_more_of_all_channels_than_of_one(rig: Rig) -> None:
    writers = [write(rig, name, first=0, limit=1_500) for name in "abc"]
    wait_until(lambda: all(len(rig.events(f"{name}.0")) == 1_500 for name in "abc"), what="a backlog", alive=writers)
    few = rig.with_config(max_blocks=6, max_rows=450)
    reader = read(few, "a.0", "b.0", "c.0")
    wait_until(lambda: len(rig.events("g.0")) == 4_500, what="all events", alive=(reader,))
    sizes = [len(numbers) for numbers in rig.batches("g.0").values()]
    assert max(sizes) <= 450
    assert max(sizes) > 200  # and yet several blocks


@pytest.mark.long
def test_a_batch_takes_some_blocks_of_each_channel_however_many_there_are(rig: Rig) -> None:
    """A writer makes one in each of its batches: who takes fewer than come falls behind for good."""
    writers = [write(rig, name, first=0, limit=300) for name in "abc"]
    wait_until(lambda: all(len(rig.events(f"{name}.0")) == 300 for name in "abc"), what="a backlog", alive=writers)
    reader = read(rig.with_config(max_blocks=2), "a.0", "b.0", "c.0")
    wait_until(lambda: len(rig.events("g.0")) == 900, what="all events", alive=(reader,))
    assert [len(numbers) for numbers in rig.batches("g.0").values()] == [900]


@pytest.mark.long
def test_a_paused_reader_leaves_out_what_came_meanwhile_in_each_channel(rig: Rig) -> None:
    writers = [write(rig, name, first=0, limit=200) for name in "ab"]
    reader = read(rig, "a.0", "b.0")
    wait_until(lambda: len(rig.events("g.0")) == 400, what="both channels", alive=(reader, *writers))
    reader.stop()
    for name in "ab":
        rig.channels.unregister(f"{name}.0", "g")
    more = [write(rig, name, first=0, limit=500, readers=("other",)) for name in "ab"]
    wait_until(
        lambda: all(rig.channels.meters(name).get("0:n", 0) >= 500 for name in "ab"), what="a pause", alive=more
    )
    offsets = {f"{name}.0": rig.channels.join(f"{name}.0", "g").offset for name in "ab"}
    last = [write(rig, name, first=0, limit=600, readers=("other",)) for name in "ab"]
    again = read(rig, "a.0", "b.0", begin=offsets)
    wait_until(lambda: len(rig.events("g.0")) == 600, what="what came later", alive=(again, *last))
    assert sorted(rig.numbers("g.0")) == sorted([*range(200), *range(500, 600)] * 2)


def test_channels_of_different_streams_are_not_one(rig: Rig) -> None:
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json())
    rig.channels.open_channel("b.0", schema_json=rig.ticks("b", rate_per_s=1).select("_seq").schema.json())
    with pytest.raises(ValueError, match=r"a\.0 and b\.0 do not carry the same stream"):
        rig.read("g", ["a.0", "b.0"])
