"""Counters of what slots, queries and channels have used so far, for charging it: read from reports and the broker.

Imports the broker's client and ``observed``, nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.model.fragment import Fragment, Slot
from workers.engine import observed
from workers.engine.channels import keys
from workers.engine.channels.control import changes_of
from workers.engine.slot_values import answers_of, count_of


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
    reports = observed.read_reports(broker)
    spilled = {query_id: kb_s for report in reports.values() for query_id, kb_s in report.spilled_kb_s.items()}
    slots = {
        Slot(node, int(index)).name: slot
        for node, report in reports.items() for index, slot in report.slots.items()
        if slot.used is not None
    }
    running = {query_id: query for slot in slots.values() for query_id, query in slot.fragments.items()}
    meters = observed.read_meters(broker, running).counts
    written = _written(broker, fragments(running.keys()))
    return {
        name: {
            **asdict(slot.used),
            "queries": {
                query_id: {
                    "busy_ms": query.busy_ms, "batches": query.batches,
                    **{field: count for field, count in meters.get(query_id, {}).items() if _is_told(field)},
                    **written.get(query_id, {}),
                    **({"spilled_kb_s": spilled[query_id]} if query_id in spilled else {}),
                    **({"apart_ms": query.trigger_ms or 0} if query.real_time else {}),
                }
                for query_id, query in slot.fragments.items()
            },
        }
        for name, slot in slots.items()
    }


def _written(broker: redis.Redis, fragments: Mapping[str, Fragment]) -> dict[str, dict[str, int]]:
    """Bytes written so far to each channel of these fragments, and to each part of one that is divided."""
    channels = [
        (name, fragment.channel_of(task)) for name, fragment in fragments.items() for task in fragment.active_tasks]
    channels += [(name, part) for name, parts in _parts(broker, fragments).items() for part in parts]
    pipeline = broker.pipeline(transaction=False)
    for _, channel in channels:
        pipeline.hget(keys.meta(channel), "bytes")
    counters: dict[str, dict[str, int]] = {}
    for (name, channel), value in zip(channels, answers_of(pipeline) if channels else (), strict=True):
        if (count := count_of(value)) is not None:
            counters.setdefault(name, {})[f"ch:{channel}"] = count
    return counters


def _parts(broker: redis.Redis, names: Iterable[str]) -> dict[str, list[str]]:
    """The part channels that these queries write to."""
    names = list(names)
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.hgetall(keys.valve(name))
    states = answers_of(pipeline) if names else []
    return {name: sorted(_parts_in(observed.texts(state or {}))) for name, state in zip(names, states, strict=True)}


def _parts_in(state: Mapping[str, str]) -> set[str]:
    """The part channels that a control hash names; none where it says what is no route."""
    try:
        changes = [change for route in changes_of(state).values() for change in route]
        return {part for change in changes for part in change.partitioning.bundles}
    except (InvalidContract, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()


def _is_told(field: str) -> bool:
    """Events and bytes; not the histograms."""
    return field.endswith((":n", ":bytes"))
