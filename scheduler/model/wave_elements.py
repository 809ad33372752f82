"""Tasks that switch in waves: which alternates they are to have, and from which sources their events come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .alternates import in_waves, on_in
from .estate import Estate
from .fragment import RunningTask
from .settings_of_fragments import USUAL


@dataclass(frozen=True, slots=True)
class WaveElement:
    """A running task that switches in waves, the alternate that is to be on, and the sources whose events reach it."""

    task: str
    on: str
    sources: tuple[str, ...]


def wave_elements(estate: Estate) -> list[WaveElement]:
    """The tasks of an estate that switch in waves."""
    return [
        WaveElement(task.id, _on(estate, task), _sources(estate.tasks, task))
        for task in estate.tasks.values() if in_waves(task.type, task.config) and task.id in estate.places]


def _on(estate: Estate, task: RunningTask) -> str:
    settings = estate.settings.get(estate.places[task.id][0], USUAL)
    return on_in(task.type, task.config, settings.alternates.get(task.id))


def _sources(tasks: Mapping[str, RunningTask], task: RunningTask) -> tuple[str, ...]:
    reached, waiting = {task.id}, [task.id]
    while waiting:
        fresh = set(tasks[waiting.pop()].parents) - reached
        reached |= fresh
        waiting += fresh
    return tuple(sorted(name for name in reached if not tasks[name].parents))
