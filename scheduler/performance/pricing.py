"""Pricing: a plan before it is carried out (CPU for events, CPU for queries, money), and what was used after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from scheduler.model.alternates import types_at_work
from scheduler.model.amounts import Amounts
from scheduler.model.cost_figures import BILLED, ESTIMATED, MEASURED, NO_COST, CostFigure, total_cost
from scheduler.model.costs import STATE_BATCH_S, TASK_BATCH_S
from scheduler.model.dataflow import Dataflow
from scheduler.model.fragment import node_of
from scheduler.model.plan import Price
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskType, TaskTypes

from .rates import MICROSECONDS_PER_S, input_rates_per_s

NOTHING: Mapping[str, float] = MappingProxyType({})
_SEEN = {
    MEASURED: "Measured on the slots that run these tasks, smoothed over five minutes; with their part of the driver.",
    BILLED: "The mean of the whole hours of the last day in which these tasks were billed.",
}


def query_cores(prices: Prices) -> float:
    """CPU cores that a query takes for running batches at all."""
    return 1000 / prices.trigger_ms * prices.costs.query_batch_s


def charged_query_cores(prices: Prices) -> float:
    """CPU cores that a query is charged for being there: what it takes, and its part of its slot's driver."""
    return query_cores(prices) + prices.costs.fixed_cores


def cores_at(task_type: TaskType, rate_per_s: float, *, prices: Prices) -> float:
    """CPU cores that a task is expected to take at a rate: for its events, and for its part in every batch."""
    costs = prices.costs
    return (
        rate_per_s * costs.task_event_us(task_type) / MICROSECONDS_PER_S
        + 1000 / prices.trigger_ms * costs.task_batch_s(task_type))


def cores_at_work(
    task_type: str, config: Mapping[str, Any], rate_per_s: float, *, task_types: TaskTypes, prices: Prices
) -> float:
    """CPU cores that a task is expected to take at a rate; of a dynamic one as `types_at_work` says."""
    return cores_of_steps(types_at_work(task_type, config, task_types), rate_per_s, prices=prices)


def cores_of_steps(steps: Iterable[tuple[TaskType, float]], rate_per_s: float, *, prices: Prices) -> float:
    """CPU cores that types are expected to take, each with its share of a rate."""
    return sum(cores_at(step, rate_per_s * share, prices=prices) for step, share in steps)


def task_cores(dataflow: Dataflow, *, task_types: TaskTypes, prices: Prices) -> dict[str, float]:
    """The CPU cores that each task of a dataflow is expected to take, by its id there."""
    rates = input_rates_per_s(dataflow, task_types=task_types)
    return {
        task.id: cores_at_work(task.type, task.config, rates[task.id], task_types=task_types, prices=prices)
        for task in dataflow.tasks}


def price_of(
    *,
    prices: Prices,
    added: CostFigure = NO_COST,
    freed: CostFigure = NO_COST,
    whole: CostFigure = NO_COST,
    tasks_started: int = 0,
    tasks_reused: int = 0,
    tasks_stopped: int = 0,
    queries_started: int = 0,
    queries_stopped: int = 0,
    types: Collection[str] = (),
) -> Price:
    """The price of a plan from what its tasks cost and how many queries run them.

    Parameters
    ----------
    added, freed : CostFigure, optional
        The costs that begin with the plan, and those that cease.
    whole : CostFigure, optional
        The cost of all tasks of its dataflow together, whoever shares them.
    types : collection of str, optional
        The types of the tasks that this is the price of.
    """
    costs = prices.costs
    figures = [figure for figure in (added, freed) if figure.cores]
    rests = total_cost(figures) if figures else whole
    # Two estimates are off by the same factor; what was measured is off by itself.
    error = abs(added.error - freed.error) if rests.basis == ESTIMATED else added.error + freed.error
    return Price(
        tasks_started=tasks_started,
        tasks_reused=tasks_reused,
        tasks_stopped=tasks_stopped,
        queries_started=queries_started,
        queries_stopped=queries_stopped,
        cores_delta=round(added.cores - freed.cores, 6),
        cores_alone=round(whole.cores, 6),
        money_per_hour_delta=round(added.per_hour - freed.per_hour, 6),
        basis=_basis(prices, costs.not_measured(types), rests),
        cores_error=round(error, 6),
        measured_queries=costs.queries, machine=costs.machine,
        not_measured=costs.not_measured(types) if costs.are_measured else (),
        money_per_hour_alone=round(whole.per_hour, 6), alone_error=round(whole.error, 6),
        rests_on="" if rests.basis == ESTIMATED else rests.basis, since_ms=rests.since_ms,
    )


def _basis(prices: Prices, not_measured: Sequence[str], rests: CostFigure) -> str:
    """The basis of CPU and money, in a sentence or two for reviewers."""
    if rests.basis != ESTIMATED:
        return _SEEN[rests.basis]
    costs = prices.costs
    at_price = f"at {prices.core_hour:g} {prices.currency} for a core and hour"
    if prices.open_queries:
        whose = "query leaves its" if prices.open_queries == 1 else "queries leave their"
        at_price += f" ({prices.open_queries} {whose} batches open, which takes as much as batches so far apart)"
    if not costs.are_measured:
        return (
            "Estimated, not measured: each task's declared CPU time for an event times its rate, plus a batch every "
            f"{prices.trigger_ms} ms that takes {costs.query_batch_s * 1000:g} ms for each query, "
            f"{TASK_BATCH_S * 1000:g} ms for each task and {STATE_BATCH_S * 1000:g} ms more for each with state, "
            f"{at_price}. Such figures are off by up to {costs.error:.0%}.")
    number = f"{costs.queries} {'query' if costs.queries == 1 else 'queries'}"
    basis = (
        f"From {number} measured on machines of this class ({costs.machine}): a batch every {prices.trigger_ms} ms "
        f"takes {costs.query_batch_s * 1000:.3g} ms for each query and what each type of task was seen to take, and so "
        f"do events, {at_price}. Of queries that they were not fitted to such figures were off by "
        f"{costs.error:.0%} (root mean square).")
    if not_measured:
        basis += (
            f" Not measured yet, so as declared times {costs.scale:.2f}, which is what the others take of what they "
            f"declare: {', '.join(not_measured)}.")
    return basis


def in_slots(
    price: Price, *, prices: Prices, slots: Mapping[str, float], before: Mapping[str, float] = NOTHING
) -> Price:
    """The price of a plan that counts on slots for itself, whatever their CPU does: with what those cost besides.

    Parameters
    ----------
    slots, before : mapping of str to float
        The part of each slot, by name, that the schedule counts on, and that it counted on before.
    """
    def per_hour(parts: Mapping[str, float]) -> float:
        return round(sum(part * prices.slot_hour(node_of(name)) for name, part in parts.items()), 6)

    delta = per_hour(slots) - per_hour(before)
    instead = f" instead of {len(before)} at {per_hour(before):g}" if before else ""
    number = f"{len(slots)} {'slot' if len(slots) == 1 else 'slots'}"
    return replace(
        price, slots_kept=len(slots), slots_per_hour_delta=round(delta, 6),
        basis=(
            f"{price.basis} Besides, the schedule keeps {number} at {per_hour(slots):g} {prices.currency} an "
            f"hour{instead} for itself, or what others leave of them: capacity, which is in no bill."))


def cost_nanos(used: Amounts, *, node: str, prices: Prices) -> int:
    """The cost of a task's CPU, memory, traffic and disk on a node, in billionths of the currency, rounded."""
    core_hours = Fraction(used.cpu_us, 3_600_000_000)
    memory_gb_hours = Fraction(used.memory_mb_s, 1024 * 3600)
    traffic_gb = Fraction(used.traffic_bytes, 1_000_000_000)
    spill_gb_hours = Fraction(used.disk_kb_s, 1_000_000 * 3600)
    cost = (
        core_hours * Fraction(prices.slot_hour(node)) + memory_gb_hours * Fraction(prices.memory_gb_hour)
        + traffic_gb * Fraction(prices.traffic_gb) + spill_gb_hours * Fraction(prices.spill_gb_hour)
    )
    return round(cost * 1_000_000_000)
