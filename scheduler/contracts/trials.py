"""Trials: what the site orders of a node's agent, how far that is, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.checks import FiniteFigures, is_between, is_count
from scheduler.model.errors import WeirError
from scheduler.model.profile import MOST_THREADS

from .codec import Codec

WARM_UP_S = 2.0
FIRST_WARM_UP_S = 12.0
DRIVER_WARM_UP_S = 45.0
SECONDS = 4.0
# What hindered the trial, and not the task: it may go well the next time.
PASSING = frozenset({"slot_died", "slot_not_ready", "agent_stopped"})
MOST_NUMBER = 2**53  # more are no whole numbers as floats
_NUMBERS = frozenset({"cores", "load", "stolen", "speed", "trigger_ms"})  # of a trial's machine, by which others go


class InvalidTrial(WeirError):
    """An order that measures nothing."""

    code = "invalid_trial"


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """An order for a measurement.

    ``slot`` is the slot's index on the node, as the desired state names it. ``feed`` is the chain of tasks, source
    first, each ``{"type": …, "config": …}``, whose output the task gets, replayed at the rate; it is empty where the
    task is a source itself. What is measured are the last ``seconds``, after ``warm_up_s`` of events at the same rate,
    which come once all threads have had their first event; where the slot's driver has not run that task yet, after
    ``first_warm_up_s``: its compilers take the core to themselves for a while. Before its first trial a driver plans
    batches for ``driver_warm_up_s``, one behind the other: code that plans a batch runs three times as fast once it
    has been compiled.

    ``approved`` says that the site found the task and its feed in the estate, as reviewers have approved them, when it
    gave the order. Without it the node builds nothing that has outside effects, and opens no secret.
    """

    id: str
    node: str
    slot: str
    task_type: str
    config: Mapping[str, Any]
    threads: int
    rate_per_s: float
    warm_up_s: float = WARM_UP_S
    seconds: float = SECONDS
    first_warm_up_s: float = FIRST_WARM_UP_S
    driver_warm_up_s: float = DRIVER_WARM_UP_S
    feed: tuple[Mapping[str, Any], ...] = ()
    approved: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "feed", tuple(self.feed))
        if self.threads < 1 or not 0 < self.rate_per_s < float("inf") or self.seconds <= 0 or self.warm_up_s < 0:
            raise InvalidTrial(
                f"A trial of {self.task_type} with {self.threads} threads at {self.rate_per_s:g} events/s over "
                f"{self.seconds:g} s after {self.warm_up_s:g} s measures nothing",
                remedy="Give at least one thread, a rate above 0 and a time above 0.",
                threads=self.threads, rate_per_s=self.rate_per_s, seconds=self.seconds,
            )


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """The progress of a trial.

    ``state`` is one of ``ordered``, ``taken`` (until its slot is ready), ``feed`` (making the events), ``driver``
    (warming the driver up), ``base`` (measuring the slot without it), ``starting``, ``idle`` (measuring the query
    without events), ``warming``, ``measuring``.
    """

    state: str
    at_ms: int = 0
    of_s: float = 0.0  # how long what is under way takes, where that is known


@dataclass(frozen=True, slots=True)
class TrialSample(FiniteFigures):
    """Some half second of a trial: when it ended, counted from the first event; the mean latency of the events that
    came out (None: none did), how many a second those were; CPU and memory above base load, as shares of the slot."""

    at_s: float
    latency_s: float | None
    events_per_s: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class TrialResult(FiniteFigures):
    """The result of a trial, of finite figures alone: `ValueError` names one that is none, and a number of the machine
    that is out of bounds.

    CPU and memory are shares of the slot above base load: of one core, and of what memory it has beyond what its driver
    takes without any query. ``idle_cpu`` and ``idle_memory`` are what the query takes while no event comes.
    ``base_cpu`` and ``base_memory`` are the driver's own, of one core and of all memory of the slot.
    ``batches_per_s`` counts the batches that carried events. ``latency_slope`` is by how many seconds the latency of
    events grows in a second; ``latency_s`` has quantiles by their names (``p05``, ``p25``, ``p50``, ``p75``, ``p95``,
    ``p99``). ``series`` begins with the first event. ``batches`` are those by which the slope and the rates were told:
    of each when it was planned and when it had ended, in seconds since the window of ``measured_s`` began, events in
    and out, and the mean moment at which those that came out were born (None: none did).
    ``machine`` has ``class``, ``cores``, ``memory_mb``, ``slots``, ``cpu``, ``core``, ``load``, ``stolen`` (the part of
    the CPU asked for that the machine's host gave to others), ``speed`` (of the core, in steps of a loop a microsecond
    of CPU), ``slot_threads`` and ``slot_heap_mb``; ``versions`` has
    ``weir``, ``python``, ``pyspark``, ``java``, ``type`` and ``code`` (a digest of the type's code; empty where it is
    not known). With ``held_back`` the feeder wrote less because the query had not read what was there. Where it
    is not ``ok``, ``code``, ``message`` and ``remedy`` say why; the code is one of
    ``slot_died``, ``slot_not_ready`` and ``agent_stopped``, which may pass, ``no_such_slot``, ``slot_busy``,
    ``unknown_task_type``, ``not_approved``, ``not_measurable``, ``too_few_threads`` (of the driver), ``no_feed``,
    ``task_failed``, ``unreadable_order`` and ``unreadable_result``.
    """

    id: str
    ok: bool
    code: str = ""
    message: str = ""
    remedy: str = ""
    threads: int = 0
    rate_per_s: float = 0.0
    offered_per_s: float = 0.0  # what the feeder did write a second
    held_back: bool = False
    achieved_per_s: float = 0.0  # what the task got through, of its input
    selectivity: float | None = None  # events out for each event in; None where none came in
    latency_slope: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    idle_cpu: float = 0.0
    idle_memory: float = 0.0
    base_cpu: float = 0.0
    base_memory: float = 0.0
    batches_per_s: float | None = None
    took_s: float = 0.0
    measured_s: float = 0.0
    at_ms: int = 0
    latency_s: Mapping[str, float] = field(default_factory=dict)
    series: tuple[TrialSample, ...] = ()
    batches: tuple[tuple[float, float, int, int, float | None], ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FiniteFigures.__post_init__(self)
        for name, figure in self.machine.items():
            if isinstance(figure, float) and not math.isfinite(figure):
                raise ValueError(f"{name} of the trial's machine is {figure!r}, which is no finite number")
            if name in _NUMBERS and figure is not None and not is_between(figure, 0, MOST_NUMBER):
                raise ValueError(f"{name} of the trial's machine is no number from 0 to {MOST_NUMBER:,}")
            if name == "slot_threads" and figure is not None and not is_count(figure, most=MOST_THREADS):
                raise ValueError(f"{name} of the trial's machine is no whole number from 1 to {MOST_THREADS:,}")

    @property
    def passing(self) -> bool:
        """True if the error may not occur the next time."""
        return self.code in PASSING


TRIAL_ORDERS = Codec(TrialOrder)
TRIAL_PROGRESS = Codec(TrialProgress)
TRIAL_RESULTS = Codec(TrialResult)
