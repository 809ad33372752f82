"""What a played task with state by key does, and how a played valve divides by keys: an event's key is its number's."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.ring import Ring, key_group

from ..channels.reference import QuotaPartitioner

KEYS = 7


def key_of(event: object) -> str:
    """The key of an event, however often it was wrapped on its way."""
    while isinstance(event, tuple):
        event = event[-1]
    return str(event % KEYS)


def tallied(state: dict[str, int] | None, events: list) -> tuple[dict[str, int], list]:
    """Each event with how many of its key came before it, and the state then."""
    state, numbered = dict(state or {}), []
    for event in events:
        key = key_of(event)
        numbered.append((state.get(key, 0), event))
        state[key] = state.get(key, 0) + 1
    return state, numbered


def dealt(ring: Ring, events: list) -> dict[str, list]:
    """The events of each part."""
    parts: dict[str, list] = {}
    for event in events:
        parts.setdefault(ring.owner(key_group(key_of(event))), []).append(event)
    return parts


def dealt_evenly(batch: int, weights: Mapping[str, float], events: list) -> dict[str, list]:
    """The events of each part where they are dealt out by weights."""
    partitioner = QuotaPartitioner.of(weights)
    indices = partitioner.deal(batch, 0, len(events))
    parts = {part: [event for event, place in zip(events, indices, strict=True) if place == index]
             for index, part in enumerate(partitioner.parts)}
    return {part: events for part, events in parts.items() if events}
