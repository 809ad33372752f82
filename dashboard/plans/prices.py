"""What slots, memory and traffic cost by the settings, and what CPU plans are expected to take."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings

from dashboard.operations.costs import costs_here
from scheduler.model.prices import Prices


def prices() -> Prices:
    """What plans are priced with: the tariff, and the CPU that was measured on this class of machine or is declared."""
    return replace(tariff(), costs=costs_here())


def tariff() -> Prices:
    """What the settings say that slots, memory and traffic cost."""
    return Prices(
        core_hour=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY, trigger_ms=settings.TRIGGER_MS,
        memory_gb_hour=settings.MEMORY_GB_HOUR_PRICE, traffic_gb=settings.TRAFFIC_GB_PRICE,
        spill_gb_hour=settings.SPILL_GB_HOUR_PRICE,
        sizes=tuple(sorted(settings.NODE_SIZES.items())))
