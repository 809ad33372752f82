"""Pricing: a plan before it is carried out (CPU for events, CPU for queries, money), and what was used after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

from scheduler.model.amounts import Amounts
from scheduler.model.plan import Price
from scheduler.model.prices import Prices

from .rates import STATE_BATCH_S, TASK_BATCH_S

QUERY_BATCH_S = 0.026  # CPU seconds that Spark takes for one batch of one query, besides its tasks'
NOTHING: Mapping[str, float] = MappingProxyType({})


def query_cores(prices: Prices) -> float:
    """CPU cores that a query takes for running batches at all."""
    return 1000 / prices.trigger_ms * QUERY_BATCH_S


def price_of(
    *,
    prices: Prices,
    tasks_started: int = 0,
    tasks_reused: int = 0,
    tasks_stopped: int = 0,
    queries_started: int = 0,
    queries_stopped: int = 0,
    task_cores_delta: float,
    task_cores_alone: float,
    queries_alone: int,
) -> Price:
    """The price of a plan from what its tasks are expected to take and how many queries run them.

    Parameters
    ----------
    prices : Prices
        What a core, a query and what they take cost an hour.
    tasks_started : int, optional
        Tasks that start.
    tasks_reused : int, optional
        Tasks that run already.
    tasks_stopped : int, optional
        Tasks that stop.
    queries_started : int, optional
        Queries that start.
    queries_stopped : int, optional
        Queries that stop.
    task_cores_delta : float
        Cores that the plan's tasks take more than those that they replace.
    task_cores_alone : float
        Cores that they would take if nothing were shared.
    queries_alone : int
        Queries that would run if nothing were shared.
    """
    for_query = query_cores(prices)
    cores_delta = task_cores_delta + (queries_started - queries_stopped) * for_query
    return Price(
        tasks_started=tasks_started,
        tasks_reused=tasks_reused,
        tasks_stopped=tasks_stopped,
        queries_started=queries_started,
        queries_stopped=queries_stopped,
        cores_delta=round(cores_delta, 6),
        cores_alone=round(task_cores_alone + queries_alone * for_query, 6),
        money_per_hour_delta=round(cores_delta * prices.core_hour, 6),
        basis=(
            "Estimated, not measured: each task's declared CPU time for an event times its rate, plus a batch every "
            f"{prices.trigger_ms} ms that takes {QUERY_BATCH_S * 1000:g} ms for each query, {TASK_BATCH_S * 1000:g} ms "
            f"for each task and {STATE_BATCH_S * 1000:g} ms more for each with state, at {prices.core_hour:g} "
            f"{prices.currency} for a core and hour."
        ),
    )


def in_slots(
    price: Price, *, prices: Prices, slots: Mapping[str, float], before: Mapping[str, float] = NOTHING
) -> Price:
    """The price of a plan that counts on slots for itself, whatever their CPU does.

    Parameters
    ----------
    price : Price
        By CPU; what that would cost stays in its ``basis``.
    slots, before : mapping of str to float
        The part of each slot, by name, that the schedule counts on, and that it counted on before.
    """
    def per_hour(parts: Mapping[str, float]) -> float:
        return round(sum(part * prices.slot_hour(name.rpartition("/")[0]) for name, part in parts.items()), 6)

    delta = per_hour(slots) - per_hour(before)
    instead = f" instead of {len(before)} at {per_hour(before):g}" if before else ""
    return replace(
        price, money_per_hour_delta=round(delta, 6),
        basis=(
            f"{len(slots)} slots at {per_hour(slots):g} {prices.currency} an hour{instead}: a schedule has slots to "
            "itself, or what others leave of them. By CPU alone it would be "
            f"{price.money_per_hour_delta:+g}. {price.basis}"))


def cost_nanos(used: Amounts, *, node: str, prices: Prices) -> int:
    """What a task's CPU, memory, traffic and disk on a node cost, in billionths of the currency, rounded."""
    core_hours = Fraction(used.cpu_us, 3_600_000_000)
    memory_gb_hours = Fraction(used.memory_mb_s, 1024 * 3600)
    traffic_gb = Fraction(used.traffic_bytes, 1_000_000_000)
    spill_gb_hours = Fraction(used.disk_kb_s, 1_000_000 * 3600)
    cost = (
        core_hours * Fraction(prices.slot_hour(node)) + memory_gb_hours * Fraction(prices.memory_gb_hour)
        + traffic_gb * Fraction(prices.traffic_gb) + spill_gb_hours * Fraction(prices.spill_gb_hour)
    )
    return round(cost * 1_000_000_000)
