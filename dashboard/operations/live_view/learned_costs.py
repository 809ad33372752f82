"""The CPU costs that plans are priced with: those learned on the class of machine that is here, else declared ones."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dashboard.core.one_reading import once
from dashboard.operations.live_view.nodes import current_machine
from dashboard.operations.models import CostFit
from scheduler.model.costs import DECLARED, Costs


def costs_here() -> Costs:
    """The costs that were learned on the class of machine that offers the most slots; what is declared where nothing
    was."""
    return once("costs here", _costs_here)


def _costs_here() -> Costs:
    machine = current_machine()
    fit = newest_fit(machine) if machine else None
    return DECLARED if fit is None else costs_of(fit)


def newest_fit(machine: str) -> CostFit | None:
    """The newest fit of costs on a class of machine."""
    return CostFit.objects.filter(machine=machine).first()


def costs_of(fit: CostFit) -> Costs:
    """The costs of a row."""
    names = {field.name for field in fields(Costs)}
    return Costs(**{
        **{name: value for name, value in fit.costs.items() if name in names}, "machine": fit.machine,
        "version": fit.version})


def document_of(costs: Costs) -> dict[str, Any]:
    """Costs as a row holds them."""
    document = {field.name: getattr(costs, field.name) for field in fields(Costs)}
    del document["machine"], document["version"]
    return document | {"batch_s": dict(costs.batch_s), "event_us": dict(costs.event_us)}
