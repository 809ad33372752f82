"""Counters of what slots, queries and channels have used so far, for charging it: read from reports and the broker.

Imports the broker's client and ``observed``, nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import redis

from scheduler.model.estate import Fragment
from workers import observed
from workers.channels import keys


def read_counters(
    broker: redis.Redis, fragments: Callable[[Collection[str]], Mapping[str, Fragment]]
) -> dict[str, dict[str, Any]]:
    """The counters of every slot that reports, by slot name.

    Parameters
    ----------
    fragments : callable
        Those of some ids that the estate knows; a query that it does not know is told without its channels.

    Returns
    -------
    dict
        ``since_ms``, ``cpu_ms``, ``memory_mb_s``, and ``queries`` by fragment id as
        ``scheduler.performance.attribution.Counters`` has them.
    """
    slots = {
        f"{node}/{index}": found
        for node, report in observed.read_reports(broker).items() for index, found in report["slots"].items()
        if found.get("used")
    }
    running = {fragment: counts for found in slots.values() for fragment, counts in found["fragments"].items()}
    meters = observed.read_meters(broker, running).counts
    written = _written(broker, fragments(running.keys()))
    return {
        name: {
            **found["used"],
            "queries": {
                fragment: {
                    "busy_ms": counts.get("busy_ms", 0), "batches": counts.get("batches", 0),
                    **{field: count for field, count in meters.get(fragment, {}).items() if _is_told(field)},
                    **written.get(fragment, {}),
                }
                for fragment, counts in found["fragments"].items()
            },
        }
        for name, found in slots.items()
    }


def _written(broker: redis.Redis, fragments: Mapping[str, Fragment]) -> dict[str, dict[str, int]]:
    """Bytes written so far to each channel of these fragments."""
    channels = [
        (name, fragment.channel_of(task)) for name, fragment in fragments.items() for task in fragment.active_tasks]
    pipeline = broker.pipeline(transaction=False)
    for _, channel in channels:
        pipeline.hget(keys.meta(channel), "bytes")
    found: dict[str, dict[str, int]] = {}
    for (name, channel), count in zip(channels, pipeline.execute() if channels else (), strict=True):
        if count is not None:
            found.setdefault(name, {})[f"ch:{channel}"] = int(count)
    return found


def _is_told(field: str) -> bool:
    """Events and bytes; not the histograms."""
    return field.endswith((":n", ":bytes"))
