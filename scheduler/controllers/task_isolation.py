"""Isolation as a controller: cuts a slow task out of a query, if others need a part of the query without that task.

``scheduler.reuse.isolation`` decides which task that is, and where the query is cut. The settings and the budget of a
waiting team count, so a team with a slow task cannot hold others up. No output changes, and the users of the slow task
lose nothing: so no other team is asked where the waiting team lets the controller act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.model.latency_limits import figure_in_words

from .changes import Aspect, AspectChange, Carriage
from .controller_port import Controller, Evaluation
from .loop_values import ACTS, OFF, ControllerPromise, Decision, IdleReason, Policy, PromiseBound
from .promised_measures import LATENCY

WITHIN_S = 900.0


@dataclass(frozen=True, slots=True)
class Waiting(FiniteFigures):
    """A dataflow that needs a part of a query, and not its slow task; its median latency in ms where that is known."""

    dataflow: str
    team: str
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class HoldUp(FiniteFigures):
    """A running task that makes a query slow of which others need a part.

    The query is cut in front of ``head``, which reads from ``parent``. ``tasks`` are those of the query, ``load_tasks``
    those whose rate is its load. ``added_ms`` is what the task adds to an event's ``latency_ms``. ``why_not`` says why
    the query is not cut.
    """

    task: str
    type: str
    query: str
    parent: str
    head: str
    tasks: tuple[str, ...]
    added_ms: float
    latency_ms: float
    waiting: tuple[Waiting, ...]
    load_tasks: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class HoldUps(FiniteFigures):
    """The evidence; ``batch_ms`` is how far apart batches are that nobody calls late."""

    slow: tuple[HoldUp, ...] = ()
    batch_ms: float = 500.0


class Isolating(Controller):
    """Cuts slow tasks out of queries of which others need a part."""

    name = "isolation"
    title = "Isolation"
    about = "Cuts a slow task out of a query where others need a part of the query, and not that task."
    reads = "slow_tasks"
    every_s = 3.0
    usual = Policy(ACTS, changes_per_hour=12, changes_per_day=96, cool_down_s=60.0)

    def evaluate(self, evidence: HoldUps, policies: Mapping[str, Policy]) -> Evaluation:
        """One decision for each slow task, for a team that waits; those that let it act come first."""
        decisions, reasons = [], []
        for slow in evidence.slow:
            waiting = self._by_mode(slow.waiting, policies)
            if slow.why_not:
                reasons += [
                    IdleReason(
                        user.team, user.dataflow, f"A task of type {slow.type} is too slow, and stays in its query: "
                           f"{slow.why_not}.") for user in waiting]
            elif waiting:
                decisions.append(_cut(slow, waiting[0], evidence.batch_ms))
        return Evaluation(tuple(decisions), tuple(reasons))

    def _by_mode(self, waiting: tuple[Waiting, ...], policies: Mapping[str, Policy]) -> list[Waiting]:
        modes = {user: policies.get(user.team, self.usual).mode for user in waiting}
        return sorted((user for user in waiting if modes[user] != OFF), key=lambda user: modes[user] != ACTS)


def _cut(slow: HoldUp, waiting: Waiting, batch_ms: float) -> Decision:
    bounds = () if waiting.latency_ms is None else (
        PromiseBound(LATENCY, "ms", waiting.latency_ms, max(waiting.latency_ms / 2, 4 * batch_ms)),)
    change = AspectChange(Aspect.STREAM, f"{slow.parent}>{slow.head}", Carriage.WITHIN, Carriage.CHANNEL)
    return Decision(
        waiting.dataflow, waiting.team, (change,),
        ControllerPromise("events of those who do not need the slow task come in half the time", WITHIN_S, bounds),
        f"A task of type {slow.type} adds {figure_in_words(slow.added_ms / 1000)} to an event's "
        f"{figure_in_words(slow.latency_ms / 1000)}, and dataflows that do not need it wait for it in the same query. "
        "It gets a query of its own, so that they continue at their rate. No output changes.",
        worth=slow.added_ms, moves_queries=True, arguments={
            "slow": slow.task, "head": slow.head, "tasks": " ".join(slow.tasks),
            "load_tasks": " ".join(slow.load_tasks)})
