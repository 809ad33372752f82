"""What the settings say that slots, memory and traffic cost."""

from __future__ import annotations

from django.conf import settings

from scheduler.model.prices import Prices


def prices() -> Prices:
    """What the settings say that slots, memory and traffic cost."""
    return Prices(
        core_hour=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY, trigger_ms=settings.TRIGGER_MS,
        memory_gb_hour=settings.MEMORY_GB_HOUR_PRICE, traffic_gb=settings.TRAFFIC_GB_PRICE,
        spill_gb_hour=settings.SPILL_GB_HOUR_PRICE,
        sizes=tuple(sorted(settings.NODE_SIZES.items())))
