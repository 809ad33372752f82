"""Counters of the keys by which writers divide streams, read from the broker. Imports nothing of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress

import redis

from scheduler.model.key_loads import KeyCounts, KeyLoads
from workers.engine.channels import keys
from workers.engine.slot_values import answers_of

MOST_BYTES = 32_768  # of what a writer tells of one reader


def key_loads(broker: redis.Redis, writers: Mapping[str, Iterable[str]]) -> dict[str, KeyLoads]:
    """Loads of keys of tasks that are divided by key, by their fragment, where enough were counted.
    """
    pairs = [(reader, query) for reader, queries in writers.items() for query in queries]
    pipeline = broker.pipeline(transaction=False)
    for reader, query in pairs:
        pipeline.hget(keys.key_meters(query), reader)
    counted: dict[str, list[KeyCounts]] = {}
    for (reader, _), text in zip(pairs, answers_of(pipeline) if pairs else (), strict=True):
        if text is not None and len(text) <= MOST_BYTES:  # and no more of what no writer of ours has told
            with suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
                counted.setdefault(reader, []).append(KeyCounts.of(json.loads(text)))
    loads_by_reader = {reader: KeyLoads.of_writers(counts) for reader, counts in counted.items()}
    return {reader: loads for reader, loads in loads_by_reader.items() if loads is not None}
