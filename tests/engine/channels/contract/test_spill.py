"""A reader goes on from disk where its node has what the broker has freed, and in the channel behind that."""

from __future__ import annotations

from pathlib import Path

import redis

from scheduler.contracts.offsets import START
from scheduler.model.behind import LOSE_OLDEST, SPILL
from workers.engine.agents.supervising.spiller import Spiller, Terms
from workers.engine.channels.spill import ChannelSpill

from .rig import Rig, wait_until

EVENTS = 3_000


def spiller(rig: Rig, folder: Path, when_behind: str = SPILL) -> Spiller:
    return Spiller(
        rig.channels, folder, readers=lambda: {("a.0", "slow"): Terms(when_behind)}, hold_ms=1_000,
        most_bytes=1 << 30)


def test_a_slow_reader_gets_from_disk_what_the_others_did_not_wait_for(rig: Rig, broker: redis.Redis) -> None:
    folder = rig.folder / "spill"
    small = rig.with_config(max_rows=100, block_rows=20, spill=folder)
    writer = rig.start(
        small.publish(
            small.ticks("a", rate_per_s=1_000, limit=EVENTS, writes=("a.0",)), "a", readers=("slow", "fast"),
            capacity=20),
        "a")
    fast = rig.start(small.publish(small.read("fast", "a.0"), "fast"), "fast")
    spilling, now_ms = spiller(rig, folder), 0

    def turned() -> bool:
        nonlocal now_ms
        now_ms += 500
        spilling.turn(now_ms)
        return len(rig.events("fast.0")) == EVENTS

    wait_until(turned, what="the fast reader", alive=(writer, fast))
    info = rig.channels.info("a.0")
    assert info.trimmed > START and info.readers["slow"] == START and info.spills["slow"] >= info.trimmed
    assert ChannelSpill(folder / "a.0").end_of(START) == info.spills["slow"]

    def start_slow():
        return rig.start(small.publish(small.read("slow", "a.0", threads=2), "slow"), "slow")

    slow = start_slow()
    wait_until(lambda: len(rig.events("slow.0")) > EVENTS // 10, what="what is on disk", alive=(slow,))
    slow.stop()  # between, so that a batch may be repeated from disk
    slow = start_slow()
    wait_until(lambda: len(rig.events("slow.0")) == EVENTS, what="the slow reader", alive=(slow,))
    assert rig.numbers("slow.0") == rig.numbers("fast.0") == list(range(EVENTS))
    wait_until(lambda: int(rig.channels.meters("slow").get("in:n", 0)) >= EVENTS, what="what it read is counted")

    def is_clear() -> bool:
        turned()
        return not rig.channels.info("a.0").spills and not list(folder.rglob("*.blocks"))

    wait_until(is_clear, what="an empty folder", alive=(slow,))


def test_a_batch_that_is_planned_on_disk_is_the_same_again_and_damage_is_told(rig: Rig, broker: redis.Redis) -> None:
    folder = rig.folder / "spill"
    small = rig.with_config(max_rows=100, block_rows=20)
    writer = rig.start(
        small.publish(
            small.ticks("a", rate_per_s=1_000, limit=1_000, writes=("a.0",)), "a", readers=("slow", "fast"),
            capacity=20), "a")
    fast = rig.start(small.publish(small.read("fast", "a.0"), "fast"), "fast")
    spilling, now_ms = spiller(rig, folder), 0
    while len(rig.events("fast.0")) < 1_000:
        now_ms += 500
        spilling.turn(now_ms)
        wait_until(lambda: True, what="", alive=(writer, fast))
    options = {"redis_url": rig.config.redis_url, "spill": folder, "max_blocks": 8, "threads": 3}
    source = rig.source("slow", "a.0", **options)
    first = source.first()
    end = source.next(first)
    slices = source.slices(first, end)
    again = rig.source("slow", "a.0", **options)
    assert again.slices(first, end) == slices and len(slices) == 3
    [path] = sorted((folder / "a.0").iterdir())[:1]
    data = bytearray(path.read_bytes())
    data[45] ^= 1
    path.write_bytes(data)
    broken = rig.source("slow", "a.0", **options)
    try:
        broken.next(first)
    except Exception as error:
        assert "is damaged" in str(error)
    else:
        raise AssertionError("a damaged block was read")


def test_a_reader_that_was_asked_to_loses_the_oldest_once_and_says_how_many(rig: Rig, broker: redis.Redis) -> None:
    folder = rig.folder / "spill"
    small = rig.with_config(max_rows=100, block_rows=20, spill=folder)
    writer = rig.start(
        small.publish(
            small.ticks("a", rate_per_s=1_000, limit=EVENTS, writes=("a.0",)), "a", readers=("slow", "fast"),
            capacity=20),
        "a")
    fast = rig.start(small.publish(small.read("fast", "a.0"), "fast"), "fast")
    options = {"redis_url": rig.config.redis_url, "spill": folder, "max_blocks": 8, "threads": 2}
    source = rig.source("slow", "a.0", **options)
    first = source.first()
    wait_until(lambda: len(rig.events("fast.0")) > 0, what="the first blocks", alive=(writer, fast))
    end = source.next(first)  # planned before it is asked to lose anything: read as it was planned, also again
    slices = source.slices(first, end)
    spilling, now_ms = spiller(rig, folder, LOSE_OLDEST), 0

    def turned() -> bool:
        nonlocal now_ms
        now_ms += 500
        spilling.turn(now_ms)
        return len(rig.events("fast.0")) == EVENTS

    wait_until(turned, what="the fast reader", alive=(writer, fast))
    assert rig.channels.info("a.0").losing == {"slow"}
    assert rig.source("slow", "a.0", **options).slices(first, end) == slices
    count = taken(slices)
    later = source.next(end)
    info = rig.channels.info("a.0")
    assert info.lost["slow"].events > EVENTS // 2 and info.trimmed == info.skips["slow"].to and not info.losing
    assert info.skips["slow"].entry == info.readers["slow"] == end["a.0"]
    again = rig.source("slow", "a.0", **options)  # the driver was killed: the same batch once more
    assert again.slices(end, later) == source.slices(end, later)
    while later != end:
        count += taken(again.slices(end, later))
        end, later = later, again.next(later)
    assert count + info.lost["slow"].events == EVENTS and rig.channels.info("a.0").lost == info.lost


def taken(slices: list[list[list]]) -> int:
    """How many events the slices of a batch take."""
    return sum(take for pieces in slices for _, _, _, _, take in pieces)
