"""What slots, memory and traffic cost by the settings, and what CPU plans are expected to take."""

from __future__ import annotations

from dataclasses import replace
from statistics import harmonic_mean

from django.conf import settings

from dashboard.operations.costs import costs_here
from dashboard.operations.pacing import priced_ms_of
from scheduler.latency.batch_costs import TIMES_ITS_CPU
from scheduler.latency.pacing import interval_alone
from scheduler.model.latency import Limits
from scheduler.model.prices import Prices


def prices(limits: Limits | None = None) -> Prices:
    """What plans are priced with: the tariff, and the CPU that was measured on this class of machine or is declared.

    Parameters
    ----------
    limits : Limits, optional
        Latency limits of the dataflow that is planned: batches are as far apart as they allow. Without them, as they
        are of a query that is new.
    """
    costs = costs_here()
    priced = replace(tariff(), costs=costs)
    if limits is None:
        return priced
    longest_s = settings.LONGEST_TRIGGER_MS / 1000
    interval_s = interval_alone(limits, batch_s=TIMES_ITS_CPU * costs.query_batch_s, largest_s=longest_s)
    return replace(priced, trigger_ms=round(1000 * interval_s))


def prices_in_force() -> Prices:
    """As `prices`, for what changes queries that run: batches as far apart as these have them, in the harmonic mean."""
    priced, paces_ms = prices(), list(priced_ms_of().values())
    return replace(priced, trigger_ms=round(harmonic_mean(paces_ms))) if paces_ms else priced


def tariff() -> Prices:
    """What the settings say that slots, memory and traffic cost."""
    return Prices(
        core_hour=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY, trigger_ms=settings.TRIGGER_MS,
        memory_gb_hour=settings.MEMORY_GB_HOUR_PRICE, traffic_gb=settings.TRAFFIC_GB_PRICE,
        spill_gb_hour=settings.SPILL_GB_HOUR_PRICE,
        sizes=tuple(sorted(settings.NODE_SIZES.items())))
