"""From channel to channel every event arrives once, whatever stops in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
ROOT = Path(__file__).resolve().parents[4]
EVENTS = 4_000


def test_nothing_is_lost_or_repeated_over_stops_and_restarts(rig: Rig) -> None:
    small_batches = rig.with_config(max_rows=200)

    def source(events):
        ticks = small_batches.ticks("a", rate_per_s=400, limit=events, writes=("a.0",))
        return rig.start(rig.publish(ticks, "a", readers=("b",)), "a")

    def copy():
        events = rig.read("b", "a.0")
        return rig.start(rig.publish(events, "b"), "b")

    first_source, first_copy = source(1_000_000), copy()
    wait_until(lambda: len(rig.events("b.0")) > 100, what="first events", alive=(first_source, first_copy))
    first_copy.stop()
    wait_until(lambda: rig.channels.info("a.0").blocks > 3, what="a backlog", alive=(first_source,))
    first_source.stop()
    events = rig.numbers("a.0")[-1] + 600  # so that there are some left for the second, beyond a batch that was planned
    second_copy = copy()
    second_source = source(events)
    wait_until(
        lambda: len(rig.events("b.0")) >= events, what="the last event", alive=(second_source, second_copy)
    )
    assert rig.numbers("b.0") == list(range(events))


def planned(rig: Rig) -> int:
    """How many numbers the newest batch that the source has planned comes to."""
    newest = max((rig.folder / "checkpoint-a" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return json.loads(newest.read_text().splitlines()[-1])["next"]


@contextmanager
def driver(rig: Rig, shape: str) -> Iterator[None]:
    """A driver that is killed at the end."""
    argv = [sys.executable, "-m", "tests.engine.channels.contract.driver", rig.config.redis_url,
            str(rig.config.data_dir), str(rig.folder), str(EVENTS), shape]
    log = rig.folder / "driver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True, stdout=output,
            stderr=output)
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}; of the driver: {log.read_text(errors='replace')[-4_000:]}") from error
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(rig: Rig, channel: str, events: int) -> None:
    wait_until(
        lambda: rig.channels.info(channel) and len(rig.events(channel)) >= events, what=f"{events} events",
        timeout_s=240,
    )


@pytest.mark.long  # slots killed in the middle of it: tests/engine/spark/test_slot.py, test_outputs_sacred.py
def test_nothing_is_lost_or_repeated_when_the_driver_is_killed(rig: Rig) -> None:
    for enough in (EVENTS // 5, EVENTS // 2, EVENTS):
        with driver(rig, "plain"):
            wait_for(rig, "b.0", enough)
    assert rig.numbers("b.0") == list(range(EVENTS))


@pytest.mark.long
def test_nothing_is_lost_or_repeated_by_bundles_when_their_driver_is_killed(rig: Rig) -> None:
    with driver(rig, "divided"):
        wait_for(rig, "d.0", 800)
        rig.channels.route("a", 0, "b", {"b": 0.2, "c": 0.8})
    rig.channels.route("a", 0, "b", {"b": 0.5, "c": 0.5})
    with driver(rig, "divided"):
        wait_for(rig, "d.0", len(rig.events("d.0")) + 500)
        rig.channels.route("a", 0, "b", {"b": 0, "c": 1})
        wait_until(lambda: rig.channels.routed("a", 0, "b").effective, what="the boundary")
        leaving = rig.channels.info("a.0@b").last
    with driver(rig, "divided"):
        wait_for(rig, "d.0", len(rig.events("d.0")) + 500)
        rig.channels.pause("a")
        events = -1
        while events != (events := planned(rig)):  # a batch may be planned while the pause is on its way
            wait_for(rig, "d.0", events)
            time.sleep(1)
    assert rig.channels.info("a.0@b").last == leaving
    assert sorted(rig.numbers("d.0")) == list(range(events))


def test_an_older_token_can_write_no_more(rig: Rig) -> None:
    old = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a"), "a")
    wait_until(lambda: rig.channels.info("a.0").blocks > 2, what="first blocks", alive=(old,))
    rig.channels.take_fence("a.0")
    wait_until(lambda: not old.isActive, what="the end of the old writer")
    written = rig.channels.info("a.0").last
    assert "WEIRFENCED" in str(old.exception())
    assert rig.channels.info("a.0").rejected >= 1

    new = rig.start(rig.valve(rig.ticks("a", rate_per_s=200), "a"), "a")
    wait_until(lambda: rig.channels.info("a.0").last != written, what="the new writer", alive=(new,))
    new.stop()
    numbers = rig.numbers("a.0")
    assert numbers == list(range(len(numbers)))


def test_a_lost_checkpoint_is_an_error_and_not_a_silence(rig: Rig) -> None:
    first = rig.start(rig.publish(rig.ticks("a", rate_per_s=500, limit=1_000), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) == 1_000, what="all events", alive=(first,))
    first.stop()
    (rig.folder / "checkpoint-a").rename(rig.folder / "lost")

    second = rig.start(rig.valve(rig.ticks("a", rate_per_s=20_000, limit=2_000), "a"), "a", trigger_ms=500)
    wait_until(lambda: not second.isActive, what="the failure")
    assert "WEIRDIFFERS" in str(second.exception()) or "WEIRPOLLUTED" in str(second.exception())
    assert rig.numbers("a.0") == list(range(1_000))
