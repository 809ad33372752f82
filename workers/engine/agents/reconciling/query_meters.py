"""Counters of queries in the broker: events taken in (of a source: made), and the full channel that one waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import redis

from workers.engine.channels import keys
from workers.engine.slot_values import answers_of, count_of

from .fragment_run import FragmentRun


@dataclass(frozen=True, slots=True)
class QueryMeter:
    """The meter of one query; ``throttled_by`` is empty where it waits for no room."""

    events: int = 0
    throttled_by: str = ""


def read_meters(broker: redis.Redis, runs: Sequence[FragmentRun]) -> dict[str, QueryMeter]:
    """The meters of queries, by fragment; none while the broker is away."""
    if not runs:
        return {}
    pipeline = broker.pipeline(transaction=False)
    for run in runs:
        pipeline.hmget(keys.meter(run.id), "throttled_by", "in:n" if run.fragment.inputs else "0:n")
    try:
        rows = answers_of(pipeline)
    except redis.RedisError:
        return {}
    return {
        run.id: QueryMeter(count_of(count) or 0, (channel or b"").decode(errors="replace"))
        for run, (channel, count) in zip(runs, (row or (None, None) for row in rows), strict=True)}
