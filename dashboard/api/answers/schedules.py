"""Answers about schedules and slots."""

from __future__ import annotations

from datetime import datetime

from .common import Answer, Error, User


class Load(Answer):
    """Shares of a slot's CPU and memory (1.0 is the whole slot); null where nothing was measured."""

    cpu: float | None
    memory: float | None


class Bound(Answer):
    """How close a mapping is to the best: what it reached, and the least that is possible."""

    reached: float
    least: float
    proved: bool
    gap: float | None = None


class PredictedBundle(Answer):
    """The predicted load of a bundle."""

    task: str
    slot: str
    threads: int
    share: float
    rate_per_s: float
    sustains_per_s: float | None
    cpu: float
    memory: float
    basis: str


class BundlePromise(PredictedBundle):
    """What a schedule promises of one bundle, by the bundle's id."""

    id: str


class ProfileUsed(Answer):
    """The profile that a task was planned with."""

    task: str
    task_type: str
    version: int
    machine: str
    origin: str


class ThreadShortage(Answer):
    """Threads placed on a slot whose driver has fewer."""

    placed: int
    driver_threads: int


class Promise(Answer):
    """What a schedule promises: rates and latencies by task, loads by slot; what is empty may be absent."""

    rate_per_s: float
    sustained_per_s: float
    latency_s: float
    rates_per_s: dict[str, float]
    bundles: list[BundlePromise]
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
    slots_bound: Bound | None = None
    traffic_bound: Bound | None = None
    crowded: dict[str, ThreadShortage] = {}


class Point(Answer):
    """A measured point of a profile: rate in events/s, CPU and memory as shares of a slot."""

    threads: int
    rate_per_s: float
    cpu: float
    memory: float
    idle_cpu: float
    idle_memory: float
    event_cpu: float | None


class ProfileWarning(Answer):
    """A warning about a profile: ``stale``, ``drifted``, ``rough`` or ``busy``, and why."""

    kind: str
    why: str


class TaskBasis(Answer):
    """What a task's part of every schedule rests on."""

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


class SlotLoad(Answer):
    """The predicted load of a slot."""

    slot: str
    cpu: float
    memory: float


class Changes(Answer):
    """How many bundles start, leave, move, get another weight, and stay."""

    start: int
    leave: int
    move: int
    weigh: int
    stay: int


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
    slots_bound: Bound | None = None
    traffic_bound: Bound | None = None
    loads: list[SlotLoad] | None = None
    bundles: list[PredictedBundle] | None = None
    changes: Changes | None = None
    note: str | None = None


class Comparison(Answer):
    """All pairs at a rate, with the slots that are free and what the schedules rest on."""

    currency: str
    routing: str
    blocked: str
    free_slots: int
    own_slots: int
    shared_slots: int
    tasks: list[TaskBasis]
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


class Reason(Answer):
    """Why a promise was missed, and what would help."""

    cause: str
    why: str
    remedy: str
    task: str


class Miss(Answer):
    """A promise that was not kept: of the dataflow where ``where`` is empty, else of that slot."""

    what: str
    where: str
    promised: float
    measured: float
    reason: Reason


class Deviation(Answer):
    """Fewer events for a task than planned; no promise was missed by it."""

    task: str
    planned_per_s: float
    measured_per_s: float
    reason: Reason


class BundleSeen(Answer):
    """What was measured of a bundle."""

    rate_per_s: float | None
    load: Load
    waits_for: list[str]
    failing: str
    silent: str


class Seen(Answer):
    """What was measured of a dataflow while its schedule was in force."""

    rate_per_s: float | None
    latency_s: float | None
    read_per_s: dict[str, float]
    offered_per_s: dict[str, float]
    bundles: dict[str, BundleSeen]
    slots: dict[str, Load]
    latencies_s: dict[str, float]
    mixed: list[str]
    over_s: float | None


class Outcome(Answer):
    """What a schedule promised, what was measured, what was missed and why."""

    proposal: str | None
    since: datetime | None
    status: str | None
    status_since: datetime | None
    status_by: str | None
    readings: int
    begins: datetime | None
    ends: datetime | None
    judged: bool
    promise: Promise | None
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


class SlotBundle(Answer):
    """A bundle on a slot: planned, measured, and whose it is."""

    id: str
    fragment: str
    tasks: list[str]
    users: list[User]
    change: str
    threads: int
    weight: float
    was: SlotBundleSide | None
    now: SlotBundleSide | None
    planned_before: Load
    planned: Load
    measured: Load
    state: str


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
