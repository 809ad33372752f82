"""Elastic dataflows: tasks with alternates, machines by the hour, and which of the one are on which of the other.

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, definitions 1 to 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from scheduler.model.checks import require_finite


@dataclass(frozen=True, slots=True)
class Alternate:
    """One way to do a task: what its results are worth against the best way (γ), seconds of a standard core for each
    event (c), and events out for each event in (s). `ValueError` where one is not above 0, or it is worth more than 1.
    """

    name: str
    worth: float
    event_s: float
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        require_finite(self)
        if not 0 < self.worth <= 1:
            raise ValueError(f"{self.name} is worth more than 0 and at most 1, not {self.worth:g}")
        if self.event_s <= 0 or self.selectivity <= 0:
            raise ValueError(f"{self.name} takes more than 0 s for an event and makes more than 0 of it")


@dataclass(frozen=True)
class ElasticDataflow:
    """Tasks, each with its alternates by name, and streams between them: pairs of who writes and who reads.

    `ValueError` where a task has no alternate, a stream's end is no task, or streams form a cycle.
    """

    tasks: Mapping[str, Mapping[str, Alternate]]
    streams: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for task, alternates in self.tasks.items():
            if not alternates:
                raise ValueError(f"{task} has no alternate")
        for end in (end for stream in self.streams for end in stream):
            if end not in self.tasks:
                raise ValueError(f"a stream has the end {end}, which is no task")
        try:
            TopologicalSorter(self.parents).prepare()
        except CycleError as error:
            raise ValueError("the streams form a cycle") from error

    @cached_property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """The tasks whose streams each task reads."""
        return {task: tuple(source for source, target in self.streams if target == task) for task in self.tasks}

    @cached_property
    def upstream_first(self) -> tuple[str, ...]:
        """Its tasks, each after those that it reads."""
        return tuple(TopologicalSorter(self.parents).static_order())

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Tasks that read no stream."""
        return tuple(task for task in self.tasks if not self.parents[task])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Tasks whose streams nobody reads."""
        read = {source for source, _ in self.streams}
        return tuple(task for task in self.tasks if task not in read)


@dataclass(frozen=True, slots=True)
class VmClass:
    """Machines of one kind: cores (N), how many times as quick as a standard core each is (π), bytes a second (β), and
    the price of an hour."""

    name: str
    cores: int
    speed: float
    bytes_per_s: float
    per_hour: float

    def __post_init__(self) -> None:
        require_finite(self)
        if self.cores < 1 or self.speed <= 0 or self.bytes_per_s <= 0 or self.per_hour < 0:
            raise ValueError(f"machines of class {self.name} have a core, and speed and bandwidth above 0")


@dataclass(frozen=True, slots=True)
class RentedVm:
    """A machine, from when until when it was rented, in seconds; None while it is."""

    kind: VmClass
    begun_s: float = 0.0
    ended_s: float | None = None

    def __post_init__(self) -> None:
        require_finite(self)
        if self.ended_s is not None and self.ended_s < self.begun_s:
            raise ValueError("a machine is given back after it was rented")


@dataclass(frozen=True)
class ElasticPlacement:
    """A placement of alternates: the active alternate of each task, machines by name, and by task its cores on each
    machine.

    `ValueError` for an unknown machine, or for more cores than it has.
    """

    active: Mapping[str, str]
    vms: Mapping[str, RentedVm] = field(default_factory=dict)
    cores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken: dict[str, int] = {}
        for task, on in self.cores.items():
            for vm, cores in on.items():
                if vm not in self.vms or cores < 0:
                    raise ValueError(f"{task} has {cores} cores of {vm}, which has none to give")
                taken[vm] = taken.get(vm, 0) + cores
        for vm, cores in taken.items():
            if cores > self.vms[vm].kind.cores:
                raise ValueError(f"{cores} cores are taken of {vm}, which has {self.vms[vm].kind.cores}")
