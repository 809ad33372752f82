"""The parts of a path's latency: waiting for batches, transport between queries, and work; as paper [5] draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures

from .triggers import Counted


@dataclass(frozen=True, slots=True)
class Hop(FiniteFigures):
    """One query of a path, as measured; all in milliseconds.

    ``age_ms`` is the mean age of events that leave it; ``channel_ms`` and ``wait_ms`` are of the channel that it reads:
    from written to read, and until a batch was planned; ``written_ms`` is the mean age of events when they were written
    there. Of a query that begins with a source they are None.
    """

    age_ms: float
    channel_ms: float | None = None
    wait_ms: float | None = None
    written_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The latency of a path by what it goes to, in milliseconds; together the age of events at its end."""

    waiting_ms: float
    transport_ms: float
    working_ms: float

    @property
    def total_ms(self) -> float:
        """All of it."""
        return self.waiting_ms + self.transport_ms + self.working_ms


def broken_down(hops: Sequence[Hop], *, first_interval_ms: float) -> Breakdown:
    """The latency of a path by what it goes to.

    Parameters
    ----------
    hops : sequence of Hop
        Its queries, from the source's on; one at least.
    first_interval_ms : float
        The interval of batches of the first, in ms: events wait half of it there, or less where they leave sooner.
    """
    waiting_ms = min(hops[0].age_ms, first_interval_ms / 2)
    transport_ms, working_ms, age_ms = 0.0, hops[0].age_ms - waiting_ms, hops[0].age_ms
    for hop in hops[1:]:
        more_ms = max(0.0, hop.age_ms - age_ms)
        channel_ms = min(more_ms, hop.channel_ms or 0.0)
        wait_ms = min(channel_ms, hop.wait_ms or 0.0)
        waiting_ms += wait_ms
        transport_ms += channel_ms - wait_ms
        working_ms += more_ms - channel_ms
        age_ms = max(age_ms, hop.age_ms)
    return Breakdown(waiting_ms, transport_ms, working_ms)


def part_broken_down(
    hops: Sequence[tuple[str, Hop]], counted: Counted, *, first_interval_ms: float
) -> Breakdown:
    """The latency of a part of a way by what it goes to: the sum over the elements that count (paper [5], 3.2.3).

    Of a query that counts it is from when a batch takes events to when they leave; of a stream from when they are
    written until a batch takes them. What came to a query by other streams than that of the part does not count.

    Parameters
    ----------
    first_interval_ms : float
        As of `broken_down`, where the first one begins with a source.
    """
    waiting_ms = transport_ms = working_ms = 0.0
    for at, (query, hop) in enumerate(hops):
        if hop.written_ms is None:
            taken_ms = min(hop.age_ms, first_interval_ms / 2)
            waiting_ms += taken_ms if counted.waits and query not in counted.passed else 0.0
        else:
            channel_ms = hop.channel_ms or 0.0
            wait_ms = min(channel_ms, hop.wait_ms or 0.0)
            taken_ms = hop.written_ms + channel_ms
            waiting_ms += wait_ms if at else 0.0
            transport_ms += channel_ms - wait_ms if at else 0.0
        working_ms += 0.0 if query in counted.passed else hop.age_ms - taken_ms
    return Breakdown(waiting_ms, transport_ms, max(0.0, working_ms))
