"""Traces: in which order dataflows are submitted and removed, a step at a time (paper [1], 5.1).

Pure: what chance decides is drawn from the stream that is passed in.

References
----------
.. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

WALK_STEPS = 100
POPULATED = 0.5  # share of the workload that a walk begins with


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a trace: a dataflow that is not there is submitted, or one that is there removed."""

    kind: Literal["submit", "remove"]
    dataflow: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace, from the empty estate to the empty estate; ``walk`` are the steps between filling and draining."""

    name: str
    changes: tuple[Change, ...]
    walk: range


def draw_traces(dataflows: Sequence[str], *, seed: int, walk_steps: int = WALK_STEPS) -> tuple[Trace, ...]:
    """The three traces that the paper draws for a workload: SEQ, RW1 and RW2, each from a stream of its own."""
    return (
        sequential(dataflows, rng=Random(f"{seed}/SEQ")),
        *(
            random_walk(dataflows, rng=Random(f"{seed}/{name}"), steps=walk_steps, name=name)
            for name in ("RW1", "RW2")
        ),
    )


def sequential(dataflows: Sequence[str], *, rng: Random, name: str = "SEQ") -> Trace:
    """Sequential submit/drain: all are submitted in random order, then all removed in another."""
    coming = rng.sample(dataflows, len(dataflows))
    going = rng.sample(dataflows, len(dataflows))
    changes = (*(Change("submit", name) for name in coming), *(Change("remove", name) for name in going))
    return Trace(name, changes, walk=range(len(changes)))


def random_walk(
    dataflows: Sequence[str], *, rng: Random, steps: int = WALK_STEPS, populated: float = POPULATED, name: str = "RW"
) -> Trace:
    """A random walk: submit or remove with equal probability, between filling a part and draining what is left.

    A dataflow that is there is not submitted again, so that no whole dataflow is reused by its own copy. Where
    everything is there a step removes, and where nothing is it submits.

    Parameters
    ----------
    dataflows : sequence of str
        Names of the dataflows.
    rng : Random
        Chance.
    steps : int, optional
        How many changes.
    populated : float, optional
        The part that is submitted before the walk begins.
    name : str, optional
        Its name.
    """
    outside = rng.sample(dataflows, len(dataflows))
    inside: list[str] = []

    def submit() -> Change:
        inside.append(outside.pop(rng.randrange(len(outside))))
        return Change("submit", inside[-1])

    def remove() -> Change:
        outside.append(inside.pop(rng.randrange(len(inside))))
        return Change("remove", outside[-1])

    def walked() -> Iterator[Change]:
        for _ in range(steps):
            comes = rng.random() < 0.5
            yield submit() if outside and (comes or not inside) else remove()

    filled = [submit() for _ in range(round(len(dataflows) * populated))]
    between = list(walked()) if dataflows else []
    drained = [remove() for _ in range(len(inside))]
    return Trace(name, (*filled, *between, *drained), walk=range(len(filled), len(filled) + len(between)))
