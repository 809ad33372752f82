"""Additions of the site to a kind of plan, and the common inputs of all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from dashboard import jobs
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices_in_force
from scheduler.model.errors import WeirError
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PlanKind
from scheduler.model.prices import Prices
from scheduler.read_set import ReadTrackingView


@dataclass(frozen=True, slots=True)
class SitePlanKind:
    """The site's part of one kind of plan.

    Parameters
    ----------
    becomes : str, optional
        The dataflow's state once the plan is in the estate; None if it stays the same.
    proposed_from : collection of str
        The states of a dataflow in which it may be proposed; empty if a submission proposes it.
    hindrance : callable
        The reason why an approved plan cannot be enacted now, as an error; None without one.
    """

    kind: PlanKind
    compute: Callable[[PlanRecord, ReadTrackingView], Plan]
    becomes: str | None
    proposed_from: Collection[str]
    hindrance: Callable[[Plan], WeirError | None] = lambda plan: None

    @property
    def name(self) -> str:
        return self.kind.name


def computed_with(record: PlanRecord, *, prices: Prices | None = None) -> dict[str, Any]:
    """The common inputs of every planner: the dataflow's id, the catalogue, and the prices in force where none are
    given."""
    return {
        "dataflow_id": str(record.dataflow_id), "task_types": jobs.task_types(), "prices": prices or prices_in_force()}
