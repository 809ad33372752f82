"""What a measurement takes of one side of a pair: CPU and rates over a window, and the events of its outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.written_blocks import read_blocks
from workers.engine import observed

from . import results
from .estate import RunningEstate

ALL_EVENTS = 1_000_000


def window(running_estate: RunningEstate, measured_s: float) -> dict[str, Any]:
    """CPU seconds, memory, events out and latency at the sinks over the next seconds."""
    cpu, before, began = running_estate.cpu_by_part_s(), running_estate.meters(), time.monotonic()
    time.sleep(measured_s)
    cpu_after, after = running_estate.cpu_by_part_s(), running_estate.meters()
    scale = measured_s / (time.monotonic() - began)
    estate = running_estate.estate
    parents = {task.id: task.parents for task in estate.tasks.values()}
    flows = observed.flows(before, after, estate.fragments.values(), parents)
    sinks = [submitted.running[sink] for submitted in estate.submitted.values() for sink in submitted.sinks]
    sources = [task.id for task in estate.tasks.values() if not task.parents]
    reached = [flows.tasks[sink] for sink in sinks if sink in flows.tasks]
    taken = {part: (cpu_after[part] - cpu[part]) * scale for part in cpu}
    return {
        "CPU s": sum(taken.values()),
        **{f"{part} s": seconds for part, seconds in taken.items()},
        "memory MB": running_estate.memory_mb(),
        "events/s in": sum(flows.tasks[source].rate_per_s for source in sources if source in flows.tasks),
        "events/s out": sum(flow.rate_per_s for flow in reached),
        "p50 ms": results.median([flow.latency_p50_ms for flow in reached]),
        "p99 ms": max((flow.latency_p99_ms for flow in reached if flow.latency_p99_ms is not None), default=None),
    }


def outputs(running_estate: RunningEstate) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """By dataflow and sink, all events that the output has kept, oldest first."""
    estate, channels = running_estate.estate, running_estate.channels
    for submitted in estate.submitted.values():
        for sink in submitted.sinks:
            channel = estate.channel_of(submitted.running[sink])
            blocks = read_blocks(channels, channel, count=ALL_EVENTS)
            yield f"{submitted.id}:{sink}", [event for _, block in blocks for event in block]


def comparable(event: Mapping[str, Any]) -> str:
    """An event but for when it was emitted, which is another moment on each side."""
    return json.dumps({name: value for name, value in event.items() if name != "_born"}, sort_keys=True, default=str)


def summary(side: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The medians of a side's runs."""
    side_runs = [run for run in runs if run["side"] == side]
    names = [name for name in side_runs[0] if name not in ("pair", "side")]
    return {"side": side, **{name: results.median([run[name] for run in side_runs]) for name in names}}
