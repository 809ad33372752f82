"""`./weir bench isolation`: what a team's dataflow notices of another team's, which shares its source and is too slow.

One team counts on an output of a source. Another team's dataflow then reads that source through a `wait` of 200 ms an
event: at 97 events/s it falls behind for good, its channel runs full, and it holds the source back for `WEIR_HOLD_S`,
no longer. The rate of the first team's output before that and from then on, by the times at which its blocks were
written; and whether both outputs are what each would have alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.planning import plan_submission
from tests.written_blocks import read_blocks
from workers.engine import observed
from workers.engine.channels import keys
from workers.library.registry import task_types

from . import results
from .arguments import positive
from .estate import NODE, RunningEstate, running

FAST, SLOW = "fast", "slow"
ALL_EVENTS = 1_000_000
SETTLE_S = 20.0
FULL_WITHIN_S = 240.0
WINDOW_S = 5.0
ALLOWED = 0.05
TRIGGER_MS = 100  # a block each: so the channel is full soon
EPOCH_MS = 1_000


@dataclass(frozen=True, slots=True)
class Block:
    """A block of an output: when it was written, and its events."""

    written_ms: int
    events: int


@dataclass(frozen=True, slots=True)
class Moments:
    """When the measured time began, the slow dataflow came, the source waited, its reader went on from disk, and the
    end; ms since the epoch."""

    began: int
    joined: int
    held: int
    let_go: int
    ended: int


def dataflow(name: str, *, rate_per_s: float, pause_ms: float | None = None) -> Dataflow:
    """One source and an output of all of it; between them, where it is given, a wait for each event."""
    tasks: list[dict[str, Any]] = [
        {"id": "meters", "type": "smart_meter"},
        {"id": "out", "type": "output", "config": {"name": name, "keep_events": ALL_EVENTS}}]
    if pause_ms is not None:
        tasks.insert(1, {"id": "wait", "type": "wait", "config": {"pause": pause_ms}})
    streams = [{"from": before["id"], "to": after["id"]} for before, after in itertools.pairwise(tasks)]
    document = {"name": name, "tasks": tasks, "streams": streams, "rates": {"meters": rate_per_s}}
    return read_document(json.dumps(document), task_types=task_types())


def measure(*, rate_per_s: float, pause_ms: float, seconds: float, hold_s: float) -> dict[str, Any]:
    """Run the one dataflow alone, then beside the other.

    Parameters
    ----------
    rate_per_s : float
        Events/s of the source.
    pause_ms : float
        How long the slow dataflow waits for each event.
    seconds : float
        How long the rate is measured, before and from then on.
    hold_s : float
        How long a reader may hold others back (`WEIR_HOLD_S`).
    """
    prices = Prices(trigger_ms=TRIGGER_MS)
    alone = _with(Estate(slots=(Slot(NODE, 0),)), FAST, dataflow(FAST, rate_per_s=rate_per_s), prices)
    both = _with(alone, SLOW, dataflow(SLOW, rate_per_s=rate_per_s, pause_ms=pause_ms), prices)
    with tempfile.TemporaryDirectory(prefix="weir-isolation-") as folder, running(
        alone, Path(folder), trigger_ms=TRIGGER_MS, settings={"WEIR_HOLD_S": f"{hold_s:g}", "WEIR_CLASS_ARCHIVE": "0"},
    ) as estate:
        estate.wait_running()
        time.sleep(SETTLE_S)
        began = _now_ms(estate)
        time.sleep(seconds)
        joined = _now_ms(estate)
        estate.enact(both)
        estate.wait(lambda: _throttled(estate), what="the stream is full", within_s=FULL_WITHIN_S)
        held = _now_ms(estate)
        estate.wait(lambda: _spills(estate), what="the slow reader goes on from disk", within_s=60 + hold_s)
        let_go = _now_ms(estate)
        time.sleep(seconds)
        moments = Moments(began, joined, held, let_go, _now_ms(estate))
        fast, slow = (estate.estate.channel_of(estate.estate.submitted[name].running["out"]) for name in (FAST, SLOW))
        return {
            **rates(_blocks(estate, fast), moments),
            "outputs": equality(_events(estate, fast), _events(estate, slow)),
        }


def rates(blocks: Sequence[Block], moments: Moments) -> dict[str, Any]:
    """Events/s of an output, medians of windows: before the slow dataflow came, and since that goes on from disk."""
    before = windows(blocks, moments.began, moments.joined)
    after = windows(blocks, moments.let_go, moments.ended)
    medians = statistics.median(before), statistics.median(after)
    return {
        "before_per_s": round(medians[0], 2), "after_per_s": round(medians[1], 2),
        "difference": round(medians[1] / medians[0] - 1, 4), "windows": [len(before), len(after)],
        "lowest_after_per_s": round(min(after), 2), "full_after_s": (moments.held - moments.joined) / EPOCH_MS,
        "held_back_s": round((moments.let_go - moments.held) / EPOCH_MS, 2),
        "stood_still_s": round(_longest_silence_ms(blocks, moments.joined, moments.ended) / EPOCH_MS, 2)}


def windows(blocks: Sequence[Block], begin_ms: int, end_ms: int) -> list[float]:
    """Events/s of each whole window between two moments."""
    size_ms = round(WINDOW_S * EPOCH_MS)
    counts = [0] * ((end_ms - begin_ms) // size_ms)
    for block in blocks:
        number = (block.written_ms - begin_ms) // size_ms
        if 0 <= number < len(counts):
            counts[number] += block.events
    return [count / WINDOW_S for count in counts]


def equality(fast: Sequence[dict[str, Any]], slow: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Whether the fast output has each number from 0 once, in order, and the slow one the same events from its first
    one on, none left out."""
    by_number = {event["_seq"]: event for event in fast}
    first = slow[0]["_seq"] if slow else 0
    return {
        "fast_events": len(fast), "slow_events": len(slow),
        "fast_is_whole": [event["_seq"] for event in fast] == list(range(len(fast))),
        "slow_is_whole": [event["_seq"] for event in slow] == list(range(first, first + len(slow))),
        "same_events": bool(slow) and all(by_number.get(event["_seq"]) == event for event in slow)}


def _with(estate: Estate, name: str, submitted: Dataflow, prices: Prices) -> Estate:
    """The estate with one more dataflow, of a team of its own."""
    return apply_plan(estate, plan_submission(
        estate, submitted, dataflow_id=name, team=name, task_types=task_types(), prices=prices))


def _throttled(estate: RunningEstate) -> bool:
    return any(report.throttled_by for report in estate.fragments().values())


def _spills(estate: RunningEstate) -> bool:
    node = observed.read_reports(estate.client).node(NODE)
    return bool(node and node.spills)


def _blocks(estate: RunningEstate, channel: str) -> list[Block]:
    return [Block(int(fields[b"t"]), int(fields[b"n"])) for _, fields in estate.client.xrange(keys.channel(channel))]


def _events(estate: RunningEstate, channel: str) -> list[dict[str, Any]]:
    return [event for _, events in read_blocks(estate.channels, channel, count=ALL_EVENTS) for event in events]


def _longest_silence_ms(blocks: Sequence[Block], begin_ms: int, end_ms: int) -> int:
    times = [begin_ms, *sorted(block.written_ms for block in blocks if begin_ms < block.written_ms < end_ms), end_ms]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def _now_ms(estate: RunningEstate) -> int:
    seconds, microseconds = estate.client.time()
    return seconds * EPOCH_MS + microseconds // 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON; 1 where an output is not whole, or the rate differs by more than 5%."""
    parser = argparse.ArgumentParser(
        description="Measure what a dataflow notices of another team's slow one that shares its source.")
    parser.add_argument("--rate", type=positive, default=97.0, help="events/s of the source")
    parser.add_argument("--pause-ms", type=positive, default=200.0, help="what the slow dataflow waits for each event")
    parser.add_argument("--seconds", type=positive, default=50.0, help="how long each rate is measured")
    parser.add_argument("--hold", type=positive, default=10.0, help="for how long a reader may hold others back (s)")
    parser.add_argument("--json", type=Path, default=Path("isolation.json"))
    given = parser.parse_args(arguments)
    load_before = os.getloadavg()[0]
    measured = measure(rate_per_s=given.rate, pause_ms=given.pause_ms, seconds=given.seconds, hold_s=given.hold)
    outputs = measured["outputs"]
    is_whole = all(outputs[name] for name in ("fast_is_whole", "slow_is_whole", "same_events"))
    is_even = abs(measured["difference"]) <= ALLOWED
    print(results.table([{
        "before /s": measured["before_per_s"], "from then on /s": measured["after_per_s"],
        "difference %": round(100 * measured["difference"], 1), "lowest /s": measured["lowest_after_per_s"],
        "full after s": measured["full_after_s"], "held back s": measured["held_back_s"],
        "stood still s": measured["stood_still_s"], "outputs": "equal" if is_whole else "NOT equal"}]))
    results.write(given.json, {
        "bench": "isolation", "machine": results.machine(), "rate_per_s": given.rate, "pause_ms": given.pause_ms,
        "hold_s": given.hold, "load": [load_before, os.getloadavg()[0]], **measured})
    return 0 if is_whole and is_even else 1


if __name__ == "__main__":
    raise SystemExit(main())
