"""Answers about schedules and slots."""

from __future__ import annotations

from datetime import datetime

from dashboard.profiles import warnings
from dashboard.schedules import comparison, slot_details
from scheduler.model import placement, profile, promise
from scheduler.performance import outcome, prediction, seen

from .common import Answer, Error, User, answer_of

Load = answer_of(promise.Load)


class BoundAnswer(Answer):
    """A mapping against the best one: its result, and the lower bound of any mapping's."""

    reached: float
    least: float
    proved: bool
    gap: float | None = None


PredictedBundle = answer_of(prediction.BundleLoad, name="PredictedBundle", slot=str, sustains_per_s=float | None)
BundlePromiseAnswer = answer_of(promise.BundlePromise, name="BundlePromiseAnswer")
ProfileUsed = answer_of(promise.ProfileUsed)
ThreadShortage = answer_of(placement.ThreadShortage)


class PromiseAnswer(Answer):
    """The promise of a schedule: rates and latencies by task, loads by slot; what is empty may be absent."""

    rate_per_s: float
    sustained_per_s: float
    latency_s: float
    rates_per_s: dict[str, float]
    bundles: list[BundlePromiseAnswer]
    pair: list[str] = []
    routing: str = ""
    limit: str = ""
    extra: int = 0
    per_hour: float = 0.0
    currency: str = ""
    between_nodes_per_s: float = 0.0
    profiles: list[ProfileUsed] = []
    allocated: dict[str, list[float]] = {}
    others: dict[str, Load] = {}
    latencies_s: dict[str, float] = {}
    slots_bound: BoundAnswer | None = None
    traffic_bound: BoundAnswer | None = None
    crowded: dict[str, ThreadShortage] = {}


Point = answer_of(profile.Point)
ProfileWarning = answer_of(warnings.ProfileWarning)


class TaskBasisAnswer(Answer):
    """The basis of a task's part of every schedule."""

    task: str
    type: str
    rate_per_s: float
    profile: str
    peak: Point | None
    divided: str
    warnings: list[ProfileWarning]


class Machine(Answer):
    """A machine of a schedule; ``to_buy`` where it is not there yet."""

    name: str
    slots: int
    size: str | None
    to_buy: bool


class PublishedMachines(Answer):
    """The machines by the paper's rule, where these cost more, with what all slots cost then."""

    machines: list[Machine]
    per_hour: float


class SlotLoadAnswer(Answer):
    """The predicted load of a slot."""

    slot: str
    cpu: float
    memory: float


Changes = answer_of(comparison.Changes)


class Pair(Answer):
    """One pair of allocation and mapping: its schedule, or ``error`` alone."""

    pair: list[str]
    error: Error | None = None
    rate_per_s: float | None = None
    slots: int | None = None
    extra: int | None = None
    machines: list[Machine] | None = None
    published_machines: PublishedMachines | None = None
    per_hour: float | None = None
    per_month: float | None = None
    sustained_per_s: float | None = None
    keeps: bool | None = None
    limit: str | None = None
    limited_by: str | None = None
    latency_s: float | None = None
    between_nodes_per_s: float | None = None
    unmeasured: int | None = None
    slots_bound: BoundAnswer | None = None
    traffic_bound: BoundAnswer | None = None
    loads: list[SlotLoadAnswer] | None = None
    bundles: list[PredictedBundle] | None = None
    changes: Changes | None = None
    note: str | None = None


class ComparisonAnswer(Answer):
    """All pairs at a rate, with the slots that are free and what the schedules rest on."""

    currency: str
    routing: str
    blocked: str
    free_slots: int
    own_slots: int
    shared_slots: int
    tasks: list[TaskBasisAnswer]
    schedules: list[Pair]


class WhatIf(Answer):
    """A pair at a rate: what it takes and gives, or ``error`` alone."""

    rate_per_s: float
    pair: list[str]
    slots: int | None = None
    per_hour: float | None = None
    per_month: float | None = None
    sustained_per_s: float | None = None
    keeps: bool | None = None
    latency_s: float | None = None
    free: bool | None = None
    error: Error | None = None


Miss = answer_of(outcome.Miss)
Deviation = answer_of(outcome.Deviation)
Seen = answer_of(seen.DataflowSeen)


class Outcome(Answer):
    """The promise of a schedule, the measurements, and the misses with their reasons."""

    proposal: str | None
    since: datetime | None
    status: str | None
    status_since: datetime | None
    status_by: str | None
    readings: int
    begins: datetime | None
    ends: datetime | None
    judged: bool
    promise: PromiseAnswer | None
    seen: Seen | None
    missed: list[Miss]
    deviations: list[Deviation]
    blur: float | None


class Run(Answer):
    """A schedule that a dataflow has run by."""

    proposal: str
    since: datetime | None
    pair: list[str]
    rate_per_s: float
    in_force: bool
    measured_until: datetime | None
    missed: list[Miss] | None


class SlotBundleSide(Answer):
    """A bundle of a slot before or after a plan."""

    threads: int
    weight: float


SlotBundle = answer_of(
    slot_details.BundleCell, name="SlotBundle", about="A bundle on a slot: planned, measured, and whose it is.",
    users=list[User], change=str, threads=int, weight=float, was=SlotBundleSide | None, now=SlotBundleSide | None)


class SlotDetail(Answer):
    """A slot: planned before and after, measured, and its bundles."""

    name: str
    state: str
    reserved_for: str
    free: bool
    planned: Load
    planned_after: Load
    measured: Load
    whole: Load
    core: int | None
    unpinned: str | None
    bundles: list[SlotBundle]
