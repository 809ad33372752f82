"""Answers about profiles, sweeps and trials."""

from __future__ import annotations

from typing import Any

from scheduler.model.refinement import Refined
from scheduler.performance import sweep
from scheduler.performance.drift import Observation

from .common import Answer, answer_of
from .schedules import Point


class ProfileAnswer(Answer):
    """A profile; ``stale`` says why it no longer holds, ``rough`` and ``at_least`` are thread counts."""

    id: str
    task_type: str
    config: dict[str, Any] | None
    version: int
    code: str
    machine: str
    static: bool
    origin: str
    team: str | None
    active: bool
    created: str
    rough: list[int]
    at_least: list[int]
    drifts: list[Any]
    stale: str | None
    points: list[Point]


class Busy(Answer):
    """The disturbance of trials: the load, the cores, and the part of the CPU that the machine's host took."""

    load: float
    cores: int
    stolen: float


class ProfileDetail(ProfileAnswer):
    """A profile, and what its trials were disturbed by."""

    busy: Busy | None


ObservationAnswer = answer_of(
    Observation, name="ObservationAnswer", about="What a running bundle was seen to do.", at=str)
FeedTask = answer_of(Refined, name="FeedTask")


class Feed(Answer):
    """A way to feed a task type while it is measured."""

    key: str
    title: str
    chain: list[FeedTask]


Bounds = answer_of(sweep.Sweep, name="Bounds")


class SweepAnswer(Answer):
    """A measurement of a task type on a slot."""

    id: str
    task_type: str
    config: dict[str, Any]
    version: int
    code: str
    any_config: bool
    feed: list[FeedTask]
    slot: str
    slot_threads: int | None
    team: str | None
    status: str
    reason: str
    bounds: Bounds
    author: str
    created: str
    profile: str | None


class Peak(Answer):
    """The highest stable and the lowest unstable rate found for a number of threads."""

    stable_per_s: float
    unstable_per_s: float
    trials: int


class TrialUnderWay(Answer):
    """The trial that runs now."""

    number: int
    threads: int
    rate_per_s: float
    why: str
    attempts: int
    state: str
    error: str | None


class SweepProgress(Answer):
    """The progress of a sweep: ``trials`` counts those with figures that count, ``under_way`` is the one that is
    measured now; peaks by number of threads."""

    id: str
    status: str
    reason: str
    slot: str
    spent_s: float
    budget_s: float
    trials: int
    peaks: dict[str, Peak]
    under_way: TrialUnderWay | None
    profile: str | None


class TrialAnswer(Answer):
    """One trial: what was offered, what came through, and what it took."""

    number: int
    threads: int
    rate_per_s: float
    why: str
    stable: bool | None
    starved: bool
    set_aside: bool
    offered_per_s: float | None
    achieved_per_s: float | None
    selectivity: float | None
    latency_slope: float | None
    cpu: float | None
    memory: float | None
    idle_cpu: float | None
    idle_memory: float | None
    base_cpu: float | None
    base_memory: float | None
    batches_per_s: float | None
    took_s: float
    quantiles: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, Any]
    attempts: int
    error: str
    remedy: str


class TrialDetail(TrialAnswer):
    """A trial with its raw series and the batches by which it was judged."""

    series: list[list[float | None]]
    batches: list[list[float | None]]
    measured_s: float | None


class SweepDetail(SweepAnswer):
    """A sweep with its progress and its trials."""

    progress: SweepProgress
    trials: list[TrialAnswer]
