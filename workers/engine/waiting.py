"""The number of events that wait for each query: the unfinished ones of the channels that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import redis

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.task_types import TaskType
from workers.engine.channels import keys, scripts
from workers.engine.slot_values import answers_of

EXACT_BLOCKS = 4  # so many are counted; of more it is an estimate, for a script that read them all would hold others up


def channels_read(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, task_types: Mapping[str, TaskType]
) -> tuple[str, ...]:
    """The channels that one query of a fragment reads: a source that makes its events none."""
    head = estate.tasks[fragment.tasks[0]]
    if head.type in task_types and task_types[head.type].connector is not None:
        return (keys.intake(head.id),)
    return tuple(channel for parent in head.parents for channel in estate.read_by(fragment, bundle, parent))


def waiting_events(broker: redis.Redis, reads: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The number of events that wait, by query, of those that have a place in a channel.

    What its node has on disk for a query that is far behind is not among them.
    """
    pairs = [(query, channel) for query, channels in reads.items() for channel in channels]
    pipeline = broker.pipeline(transaction=False)
    for query, channel in pairs:
        scripts.run(
            pipeline, "waiting", [keys.channel(channel), keys.meta(channel), keys.readers(channel)],
            [query, EXACT_BLOCKS])
    counts: dict[str, int] = {}
    for (query, _), events in zip(pairs, answers_of(pipeline) if pairs else (), strict=True):
        if events is not None and events >= 0:
            counts[query] = counts.get(query, 0) + int(events)
    return counts


def reads_of(
    estate: Estate, fragments: Iterable[Fragment], task_types: Mapping[str, TaskType]
) -> dict[str, tuple[str, ...]]:
    """By query of these fragments, the channels that it reads."""
    return {
        bundle.id: channels for fragment in fragments for bundle in fragment.queries
        if (channels := channels_read(estate, fragment, bundle, task_types))}
