"""Steps that fuse queries, as controllers look at them, and what each changes in the words that they share."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.reuse.defragment import Fusion, StepLoad

from .changes import Aspect, AspectChange, Carriage, Surplus


@dataclass(frozen=True, slots=True)
class Candidate(FiniteFigures):
    """A step that is possible, of the dataflow that it is looked at for.

    ``tasks`` are the running tasks that its queries work at, ``load_tasks`` those whose rate is the load. ``cores`` and
    ``latency_ms`` are what its queries take and the dataflow has now, None where that is not measured.
    """

    dataflow: str
    team: str
    touched: tuple[str, ...]
    fusion: Fusion
    load: StepLoad
    tasks: tuple[str, ...] = ()
    load_tasks: tuple[str, ...] = ()
    cores: float | None = None
    latency_ms: float | None = None


def changes_of(fusion: Fusion) -> tuple[AspectChange, ...]:
    """The changes of a step, in the words that all controllers share."""
    changes = [
        AspectChange(Aspect.STREAM, ">".join(stream), Carriage.CHANNEL, Carriage.WITHIN) for stream in fusion.streams]
    if fusion.dead_tasks:
        changes += [AspectChange(Aspect.TASKS, name, Surplus.WITH, Surplus.WITHOUT) for name in fusion.path]
    return tuple(changes)
