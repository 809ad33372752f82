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

import redis

from scheduler.contracts.trials import (
    TRIAL_ORDERS,
    TRIAL_PROGRESS,
    TRIAL_RESULTS,
    TrialOrder,
    TrialProgress,
    TrialResult,
)
from scheduler.model.errors import WeirError
from workers.engine.channels.keys import PREFIX
from workers.engine.channels.scripts import ALONE

ORDER_LIVES_S = 600
PROGRESS_LIVES_S = 90  # a trial that says nothing for so long has died with its agent
RESULT_LIVES_S = 24 * 3600
REMEDY_OF_VERSIONS = "Run one version of Weir on the site and on the node, then measure again."


# At once, so that nobody who asks in between takes the trial for lost and orders it again.
TAKE = ALONE + """
local order = redis.call('GETDEL', KEYS[1])
if order then redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2]) end
return order
"""


class TrialFailed(Exception):
    """A trial failed; the code is one of those of ``TrialResult``."""

    def __init__(self, code: str, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.code, self.message, self.remedy = code, message, remedy


# -- the site's side -------------------------------------------------------------------------------------------------


def order(broker: redis.Redis, trial: TrialOrder) -> None:
    """Let the node's agent run a trial, after those ordered before it."""
    pipeline = broker.pipeline()
    pipeline.set(_key(trial.id, "order"), TRIAL_ORDERS.dumps(trial), ex=ORDER_LIVES_S)
    pipeline.rpush(queue(trial.node), trial.id).expire(queue(trial.node), ORDER_LIVES_S)
    pipeline.execute()


def cancel(broker: redis.Redis, trial_id: str) -> None:
    """Let a trial end without a result, or never begin."""
    pipeline = broker.pipeline()
    pipeline.set(_key(trial_id, "cancelled"), 1, ex=ORDER_LIVES_S).delete(_key(trial_id, "order"))
    pipeline.execute()


def result(broker: redis.Redis, trial_id: str) -> TrialResult | None:
    """The result of a trial; None where there is none, yet."""
    text = broker.get(_key(trial_id, "result"))
    try:
        return None if text is None else TRIAL_RESULTS.loads(text)
    except WeirError as error:
        return TrialResult(
            trial_id, False, code="unreadable_result", message=f"What the node measured cannot be read: {error}",
            remedy=REMEDY_OF_VERSIONS)


def progress(broker: redis.Redis, trial_id: str) -> TrialProgress | None:
    """The progress of a trial; None where it is over, was never ordered, or died with its agent."""
    ordered = broker.get(_key(trial_id, "order"))
    # An order that no agent will find: the one that drew it from the list died before it read it.
    waits = ordered is not None and broker.lpos(queue(TRIAL_ORDERS.loads(ordered).node), trial_id) is not None
    # Last: who takes an order says so in the same moment.
    text = broker.get(_key(trial_id, "progress"))
    if text is not None:
        return TRIAL_PROGRESS.loads(text)
    return TrialProgress("ordered") if waits else None


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
        TAKE, 2, _key(trial_id, "order"), _key(trial_id, "progress"), TRIAL_PROGRESS.dumps(TrialProgress("taken")),
        PROGRESS_LIVES_S)
    try:
        return None if text is None else TRIAL_ORDERS.loads(text)
    except WeirError as error:
        finish(broker, TrialResult(
            trial_id, False, code="unreadable_order", message=f"Node {node} cannot read the order: {error}",
            remedy=REMEDY_OF_VERSIONS))
        return None


def is_cancelled(broker: redis.Redis, trial_id: str) -> bool:
    """True where it is to end now."""
    return bool(broker.exists(_key(trial_id, "cancelled")))


def tell(broker: redis.Redis, trial_id: str, progress: TrialProgress) -> None:
    """Say how far a trial is."""
    broker.set(_key(trial_id, "progress"), TRIAL_PROGRESS.dumps(progress), ex=PROGRESS_LIVES_S)


def still(broker: redis.Redis, trial_id: str) -> None:
    """Extend the life of the progress key, so that a long phase is not taken for a dead trial."""
    broker.expire(_key(trial_id, "progress"), PROGRESS_LIVES_S)


def finish(broker: redis.Redis, result: TrialResult) -> None:
    """Say what came of a trial; of one that was cancelled nothing does."""
    pipeline = broker.pipeline()
    pipeline.delete(_key(result.id, "progress"))
    if not is_cancelled(broker, result.id):
        pipeline.set(_key(result.id, "result"), TRIAL_RESULTS.dumps(result), ex=RESULT_LIVES_S)
    pipeline.execute()


def give_up(broker: redis.Redis, trial_id: str) -> None:
    """Say no more of a trial that was cancelled."""
    broker.delete(_key(trial_id, "progress"))


def _key(trial_id: str, part: str) -> str:
    return f"{PREFIX}trial:{trial_id}:{part}"
