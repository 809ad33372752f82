"""Switches: which alternate of a dynamic task got which first event, as the query that works on the task notes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .codec import Codec
from .moments import MomentMs


@dataclass(frozen=True, slots=True)
class AlternateSwitch:
    """A switch: from ``batch`` of ``query`` on, whose first event has the number ``seq``, an alternate works at a task.

    ``warming``: the alternate that warms up beside it, empty for none; ``at_ms``: the time of the note. If the task
    reads several streams, ``seq`` is the number of the event that came first; others of the batch may have smaller
    ones.
    """

    alternate: str
    query: str
    batch: int
    seq: int
    at_ms: MomentMs
    warming: str = ""


@dataclass(frozen=True, slots=True)
class KeySwitch:
    """A switch of keys: from ``batch`` of ``query`` on, whose first event has the number ``seq``, these alternates work
    for these keys.

    ``keys`` has at least those that changed; an empty name is that of the alternate that works for all other keys.
    """

    keys: Mapping[str, str]
    query: str
    batch: int
    seq: int
    at_ms: MomentMs


def warming_since_ms(switches: Iterable[AlternateSwitch], queries: Collection[str], warming: str) -> int | None:
    """The time since which an alternate warms up in all of these queries that have had events since; None where none
    has."""
    newest = {switch.query: switch for switch in switches if switch.query in queries}
    return max((switch.at_ms for switch in newest.values() if switch.warming == warming), default=None)


SWITCHES = Codec(AlternateSwitch)
KEY_SWITCHES = Codec(KeySwitch)


def in_sequence(noted: Iterable[AlternateSwitch]) -> tuple[AlternateSwitch, ...]:
    """Switches in the order of their batches, query by query in the order in which these began.

    A restarted query notes its alternate again: only changes are kept. A query that goes on from a copy repeats batches
    of the former one, with the same first events: its notes of these batches are left out as repetitions.
    """
    by_query: dict[str, list[AlternateSwitch]] = {}
    for switch in sorted(noted, key=lambda switch: switch.batch):
        of_query = by_query.setdefault(switch.query, [])
        if not of_query or (of_query[-1].alternate, of_query[-1].warming) != (switch.alternate, switch.warming):
            of_query.append(switch)
    queries = sorted(by_query.values(), key=lambda switches: (switches[0].at_ms, switches[0].query))
    sequence: list[AlternateSwitch] = []
    firsts = set[tuple[str, str, int]]()
    for switches in queries:
        events = [(switch.alternate, switch.warming, switch.seq) for switch in switches]
        new = max((index + 1 for index, event in enumerate(events) if event in firsts), default=0)
        sequence += switches[new:]
        firsts.update(events)
    return tuple(sequence)
