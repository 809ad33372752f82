"""A refinement: a submitted task that a plan makes from the stream of a wider one that runs already."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refinement:
    """The submitted task, the id that the wider task has within the dataflow, and the running task that this is."""

    task: str
    wider: str
    running: str
