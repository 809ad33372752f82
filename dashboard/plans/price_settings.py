"""Prices of slots, memory and traffic by the settings, and the CPU that plans are expected to take."""

from __future__ import annotations

from dataclasses import replace
from statistics import harmonic_mean

from django.conf import settings

from dashboard import jobs
from dashboard.operations.estate_store.estate_reader import LookUps
from dashboard.operations.latency_control.open_batches import able_types
from dashboard.operations.latency_control.pacer import priced_ms_of
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.schedulable_slots import node_sizes
from dashboard.operations.live_view.task_meters import meters_of
from scheduler.latency.batch_costs import TIMES_ITS_CPU
from scheduler.latency.offers import Alone, able_chains, expected_queries, modes_alone, planned_interval_s
from scheduler.latency.pacing import interval_alone
from scheduler.model.cost_figures import CostMeter
from scheduler.model.costs import Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.latency_limits import Limits
from scheduler.model.prices import Prices
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.newcomer import as_running
from scheduler.performance.rates import input_rates_per_s
from scheduler.reuse.fragments import LONGEST_CHAIN, cut_into_chains


def prices(limits: Limits | None = None, *, dataflow: Dataflow | None = None, opens: bool = True) -> Prices:
    """The prices of plans and of running tasks: the tariff, CPU as measured on this class of machine or as declared,
    and meters and intervals of running tasks.

    Parameters
    ----------
    limits : Limits, optional
        Latency limits of the planned dataflow: its intervals are as long as they allow; without limits as those of a
        new query.
    dataflow : Dataflow, optional
        The planned dataflow, if it has no schedule: queries that would leave their batches open are priced as open.
    opens : bool, optional
        True if its team lets batches stay open (`open_batches.lets_open`).
    """
    if limits is None or dataflow is None:
        return _priced(limits, costs_here())
    return prices_and_settings(limits, dataflow, opens=opens)[0]


def prices_and_settings(
    limits: Limits, dataflow: Dataflow, *, opens: bool
) -> tuple[Prices, dict[str, FragmentSettings]]:
    """The prices of a plan without a schedule; and by task of its dataflow what its query is to begin with, as it is
    priced: those that begin with micro-batches are left out. ``opens`` is as in `prices`."""
    costs = costs_here()
    alone = queries_alone(dataflow, costs=costs, opens=opens)
    if alone is None or not alone.able:
        return _priced(limits, costs), {}
    chosen = modes_alone(alone.queries, alone.way, limits, able=alone.able)
    interval_s = planned_interval_s(alone.queries, chosen, limits, batch_s=TIMES_ITS_CPU * costs.query_batch_s)
    priced = replace(
        _priced(limits, costs), trigger_ms=max(1, round(1000 * interval_s)), open_queries=len(chosen.open))
    return priced, {
        task: FragmentSettings(round(1000 * chosen.interval_s[query]), real_time=True)
        for task, query in alone.home.items() if query in chosen.open}


def _priced(limits: Limits | None, costs: Costs) -> Prices:
    """The prices where no batches stay open."""
    priced = replace(
        tariff(), costs=costs, meters=LookUps[CostMeter](meters_of), paces_ms=LookUps[int](priced_ms_of))
    if limits is None:
        return priced
    interval_s = interval_alone(
        limits, batch_s=TIMES_ITS_CPU * costs.query_batch_s, largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    return replace(priced, trigger_ms=round(1000 * interval_s))


def queries_alone(
    dataflow: Dataflow, *, costs: Costs, scheduled: bool = False, opens: bool = True
) -> Alone | None:
    """The dataflow alone, or by a schedule (a query for each task, none with batches further apart than its promise was
    made for, and none open); None where a task's type is not installed. Without ``opens`` none are open."""
    types = jobs.task_types()
    if any(task.type not in types for task in dataflow.tasks):
        return None
    chains = cut_into_chains(
        as_running(dataflow), task_types=types, longest_chain=1 if scheduled else LONGEST_CHAIN,
        unchained=dataflow.unchained)
    queries, way = expected_queries(
        dataflow, chains, rates_per_s=input_rates_per_s(dataflow, task_types=types), task_types=types, costs=costs,
        largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    home = {task: chain[0] for chain in chains for task in chain}
    if scheduled:
        return Alone(replace(queries, bounds_s=dict.fromkeys(queries.costs, settings.TRIGGER_MS / 1000)), way, home)
    return Alone(queries, way, home, able_chains(dataflow, chains, able_types() if opens else ()))


def prices_in_force() -> Prices:
    """The prices of `prices`, for what changes queries that run: batches as far apart as these have them, in the
    harmonic mean."""
    priced, paces_ms = prices(), list(priced_ms_of().values())
    return replace(priced, trigger_ms=round(harmonic_mean(paces_ms))) if paces_ms else priced


def tariff() -> Prices:
    """The prices of slots, memory and traffic by the settings."""
    return Prices(
        core_hour=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY, trigger_ms=settings.TRIGGER_MS,
        memory_gb_hour=settings.MEMORY_GB_HOUR_PRICE, traffic_gb=settings.TRAFFIC_GB_PRICE,
        spill_gb_hour=settings.SPILL_GB_HOUR_PRICE,
        sizes=tuple(sorted(node_sizes().items())))
