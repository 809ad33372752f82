"""`./weir cost DATAFLOW`: what a dataflow costs an hour, as its page says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from dashboard.bills.dataflow_costs import DataflowCost, cost_of
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.cost_figures import ESTIMATED, CostFigure


class Command(DataflowCommand):
    help = "Print what a dataflow costs an hour: CPU and money, whether that is estimated, measured or billed."

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        cost = cost_of(viewer_of(actor), record.pk)
        return f"Nothing is known of what {record.name} costs." if cost is None else "\n".join(_lines(record, cost))


def _lines(record: DataflowRecord, cost: DataflowCost) -> Iterator[str]:
    yield f"{record.name}{'' if cost.works else ', if it worked'}:"
    yield f"  without sharing  {_figure_line(cost.whole, cost.currency)}"
    if cost.planned is not None and cost.whole.basis != ESTIMATED:
        yield f"  planned          {_figure_line(cost.planned, cost.currency)}"
    if cost.pays is not None:
        yield f"  pays             {_figure_line(cost.pays, cost.currency)}"
    if cost.latency_per_hour is not None:
        yield f"  for latency      {cost.latency_per_hour:.4f} {cost.currency} an hour of its bill"
    if cost.kept_per_hour is not None:
        yield f"  keeps slots      {cost.slots_kept}, {cost.kept_per_hour:.4f} {cost.currency} an hour, in no bill"
    if cost.not_measured:
        yield f"  as declared      {', '.join(cost.not_measured)}"


def _figure_line(figure: CostFigure, currency: str) -> str:
    since = "" if figure.since_ms is None else f" since {datetime.fromtimestamp(figure.since_ms / 1000, UTC):%F %R} UTC"
    return (
        f"{figure.cores:.3f} cores ({figure.low:.3f} to {figure.high:.3f}), {figure.per_hour:.4f} {currency} an hour, "
        f"{figure.basis}{since}")
