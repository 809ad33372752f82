"""Trials: a task measured for some seconds with so many threads at a rate, as they stand in the broker.

The site orders one, the node's agent takes it, runs it in a slot and tells how far it is and what came of it. Imports
nothing of Spark. Everything expires: an order that nobody took in ten minutes, a result that nobody fetched in a day.

    weir:trials:<node>            list of trial ids that the node's agent has not taken yet
    weir:trial:<id>:order         what is to be measured
    weir:trial:<id>:progress      how far it is, from when it is taken until it ends
    weir:trial:<id>:cancelled     it is to end now, without a result
    weir:trial:<id>:result        what came of it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import redis

from scheduler.model.errors import WeirError
from workers.engine.channels.keys import PREFIX

WARM_UP_S = 2.0
FIRST_WARM_UP_S = 12.0
DRIVER_WARM_UP_S = 45.0
SECONDS = 4.0
ORDER_LIVES_S = 600
PROGRESS_LIVES_S = 90  # a trial that says nothing for so long has died with its agent
RESULT_LIVES_S = 24 * 3600
REMEDY_OF_VERSIONS = "Run one version of Weir on the site and on the node, then measure again."
# What hindered the trial, and not the task: it may go well the next time.
PASSING = frozenset({"slot_died", "slot_not_ready", "agent_stopped"})


# At once, so that nobody who asks in between takes the trial for lost and orders it again.
TAKE = """
local order = redis.call('GETDEL', KEYS[1])
if order then redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2]) end
return order
"""


class InvalidTrial(WeirError):
    """An order that measures nothing."""

    code = "invalid_trial"


class TrialFailed(Exception):
    """A trial came to nothing; the code is one of those of ``TrialResult``."""

    def __init__(self, code: str, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.code, self.message, self.remedy = code, message, remedy


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """What is to be measured, and where.

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
class Progress:
    """How far a trial is.

    ``state`` is one of ``ordered``, ``taken`` (until its slot is ready), ``feed`` (making the events), ``driver``
    (warming the driver up), ``base`` (measuring the slot without it), ``starting``, ``idle`` (measuring the query
    without events), ``warming``, ``measuring``.
    """

    state: str
    at_ms: int = 0
    of_s: float = 0.0  # how long what is under way takes, where that is known


@dataclass(frozen=True, slots=True)
class Sample:
    """Some half second of a trial: when it ended, counted from the first event; the mean latency of the events that
    came out (None: none did), how many a second those were; CPU and memory above base load, as shares of the slot."""

    at_s: float
    latency_s: float | None
    events_per_s: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a trial.

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
    ended_early: bool = False  # latency grew so clearly that nothing more was to be learnt
    at_ms: int = 0
    latency_s: Mapping[str, float] = field(default_factory=dict)
    series: tuple[Sample, ...] = ()
    batches: tuple[tuple[float, float, int, int, float | None], ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passing(self) -> bool:
        """Whether what went wrong may go well the next time."""
        return self.code in PASSING


# -- the site's side -------------------------------------------------------------------------------------------------


def order(broker: redis.Redis, trial: TrialOrder) -> None:
    """Let the node's agent run a trial, after those ordered before it."""
    pipeline = broker.pipeline()
    pipeline.set(_key(trial.id, "order"), json.dumps(asdict(trial)), ex=ORDER_LIVES_S)
    pipeline.rpush(queue(trial.node), trial.id).expire(queue(trial.node), ORDER_LIVES_S)
    pipeline.execute()


def cancel(broker: redis.Redis, trial_id: str) -> None:
    """Let a trial end without a result, or never begin."""
    pipeline = broker.pipeline()
    pipeline.set(_key(trial_id, "cancelled"), 1, ex=ORDER_LIVES_S).delete(_key(trial_id, "order"))
    pipeline.execute()


def result(broker: redis.Redis, trial_id: str) -> TrialResult | None:
    """What came of a trial; None where nothing has, yet."""
    text = broker.get(_key(trial_id, "result"))
    try:
        return None if text is None else result_of(json.loads(text))
    except (TypeError, ValueError, AttributeError) as error:
        return TrialResult(
            trial_id, False, code="unreadable_result", message=f"What the node measured cannot be read: {error}",
            remedy=REMEDY_OF_VERSIONS)


def progress(broker: redis.Redis, trial_id: str) -> Progress | None:
    """How far a trial is; None where it is over, was never ordered, or died with its agent."""
    ordered = broker.get(_key(trial_id, "order"))
    # An order that no agent will find: the one that drew it from the list died before it read it.
    waits = ordered is not None and broker.lpos(queue(json.loads(ordered)["node"]), trial_id) is not None
    # Last: who takes an order says so in the same moment.
    text = broker.get(_key(trial_id, "progress"))
    if text is not None:
        return Progress(**json.loads(text))
    return Progress("ordered") if waits else None


def result_of(document: Mapping[str, Any]) -> TrialResult:
    """The result in its JSON, as ``dataclasses.asdict`` gives it."""
    series = tuple(Sample(**sample) for sample in document.get("series", ()))
    batches = tuple(tuple(row) for row in document.get("batches", ()))
    return TrialResult(**{**document, "series": series, "batches": batches})


# -- the agent's side ------------------------------------------------------------------------------------------------


def queue(node: str) -> str:
    """The list of what a node is to run."""
    return f"{PREFIX}trials:{node}"


def take(broker: redis.Redis, node: str, *, wait_s: float = 1.0) -> TrialOrder | None:
    """The next order of a node, waiting for one; an order is taken once.

    None where none came, or it was cancelled, or cannot be read: then that is what comes of it.
    """
    popped = broker.blpop([queue(node)], timeout=wait_s)
    if popped is None:
        return None
    trial_id = popped[1].decode()
    text = broker.eval(
        TAKE, 2, _key(trial_id, "order"), _key(trial_id, "progress"), json.dumps(asdict(Progress("taken"))),
        PROGRESS_LIVES_S)
    try:
        return None if text is None else TrialOrder(**json.loads(text))
    except (TypeError, ValueError, WeirError) as error:
        finish(broker, TrialResult(
            trial_id, False, code="unreadable_order", message=f"Node {node} cannot read the order: {error}",
            remedy=REMEDY_OF_VERSIONS))
        return None


def is_cancelled(broker: redis.Redis, trial_id: str) -> bool:
    """Whether it is to end now."""
    return bool(broker.exists(_key(trial_id, "cancelled")))


def tell(broker: redis.Redis, trial_id: str, progress: Progress) -> None:
    """Say how far a trial is."""
    broker.set(_key(trial_id, "progress"), json.dumps(asdict(progress)), ex=PROGRESS_LIVES_S)


def still(broker: redis.Redis, trial_id: str) -> None:
    """Extend the life of the progress key, so that a long phase is not taken for a dead trial."""
    broker.expire(_key(trial_id, "progress"), PROGRESS_LIVES_S)


def finish(broker: redis.Redis, result: TrialResult) -> None:
    """Say what came of a trial; of one that was cancelled nothing does."""
    pipeline = broker.pipeline()
    pipeline.delete(_key(result.id, "progress"))
    if not is_cancelled(broker, result.id):
        pipeline.set(_key(result.id, "result"), json.dumps(asdict(result)), ex=RESULT_LIVES_S)
    pipeline.execute()


def give_up(broker: redis.Redis, trial_id: str) -> None:
    """Say no more of a trial that was cancelled."""
    broker.delete(_key(trial_id, "progress"))


def _key(trial_id: str, what: str) -> str:
    return f"{PREFIX}trial:{trial_id}:{what}"
