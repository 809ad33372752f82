"""The decision whether a query goes on with other channels while it runs. Pure.

Bundles of a divided writer come and go, and with them the channels of its stream. A reader that was stopped and
compiled anew for that would stand still, with all keys. So it is told between two batches, where nothing but the
channels of its streams is another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from scheduler.contracts.desired import Input, WantedFragment
from workers.engine.channels import keys

from .instructions import ReadChannels
from .savepoint_decisions import was_unregistered
from .snapshot import Snapshot


def other_channels(snapshot: Snapshot, fragment: WantedFragment, inputs: tuple[Input, ...]) -> ReadChannels | None:
    """The order to its query to read other channels; None if it has to be compiled anew, or does not run."""
    running, begun = snapshot.running, snapshot.records.begun
    whole = replace(fragment, tasks=running.tasks, inputs=inputs)
    new = {item.channel for item in inputs} - {item.channel for item in running.inputs}
    is_same = all(
        getattr(whole, name) == getattr(running, name) for name in ("threads", "real_time", "written")
    ) and _kinds(inputs) == _kinds(running.inputs) and not whole.real_time
    repeats = begun is not None and (begun.repeats or not new.isdisjoint(begun.offsets))
    if not is_same or repeats or not snapshot.has_query or was_unregistered(snapshot, fragment):
        return None
    return ReadChannels(whole) if _carry_the_same(snapshot, (*running.inputs, *inputs), new) else None


def _kinds(inputs: Iterable[Input]) -> list[tuple[str, bool]]:
    """The streams in their order, by task, and whether they come in parts: one that comes in both is there twice."""
    return list(dict.fromkeys((item.task, keys.is_part(item.channel)) for item in inputs))


def _carry_the_same(snapshot: Snapshot, inputs: Iterable[Input], new: Collection[str]) -> bool:
    """Whether the new channels have the columns of those that the query was compiled with."""
    tasks = {item.channel: item.task for item in inputs}
    schemas: dict[tuple[str, bool], set[str]] = {}  # by task, and whether they are of new channels
    for channel, task in tasks.items():
        if (info := snapshot.channels.get(channel)) is not None:
            schemas.setdefault((task, channel in new), set()).add(info.schema_json)
    return all(len(columns) == 1 and columns == schemas.get((task, False))
               for (task, is_new), columns in schemas.items() if is_new)
