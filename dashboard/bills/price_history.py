"""Prices over time: what the settings say applies from when it is first seen; what was charged stays as it was."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from dashboard.bills.models import PriceList
from dashboard.plans.price_settings import tariff
from scheduler.model.prices import Prices, VmSize

_OF_ESTIMATES = {"trigger_ms", "costs", "open_queries"}


def prices_at(at: datetime) -> Prices:
    """The prices that applied at a moment; before the first list, the first."""
    price_list = PriceList.objects.filter(since__lte=at).first() or PriceList.objects.order_by("since").first()
    return tariff() if price_list is None else _from_json(price_list.prices)


def note_prices(*, at: datetime) -> None:
    """Note the prices of the settings, where they are others than before, as valid from a moment on."""
    now = _to_json(tariff())
    newest = PriceList.objects.first()
    if newest is None or newest.prices != now:
        PriceList.objects.create(since=at, prices=now)


def lists_between(since: datetime, until: datetime) -> list[tuple[datetime | None, Prices]]:
    """The prices that applied in a time, the oldest first, with when each began: None where nothing was charged yet."""
    inside = list(PriceList.objects.filter(since__gt=since, since__lt=until).order_by("since"))
    first = PriceList.objects.filter(since__lte=since).first()
    lists = [first, *inside] if first is not None else inside
    return [(price_list.since, _from_json(price_list.prices)) for price_list in lists] or [(None, tariff())]


def _to_json(prices: Prices) -> dict[str, Any]:
    # What plans are estimated with charges nothing.
    charged = {field.name: getattr(prices, field.name) for field in fields(prices) if field.name not in _OF_ESTIMATES}
    return charged | {"sizes": {node: asdict(size) for node, size in prices.sizes}}


def _from_json(document: dict[str, Any]) -> Prices:
    sizes = tuple((node, VmSize(**size)) for node, size in sorted(document["sizes"].items()))
    return Prices(**{**document, "sizes": sizes})
