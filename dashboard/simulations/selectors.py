"""Simulations, for those who may know of the dataflow; of a replay, limits of those dataflows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from numpy import array, isfinite, median

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for, is_uuid, visible_to
from dashboard.simulations.models import REPLAY, SIDE_BY_SIDE, SimulationRun
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound

NOW, THEN = "as it is", "with the plan"
SHOWN = 10  # of the newest of a dataflow or proposal


def simulation(viewer: Viewer, run_id: UUID | str) -> SimulationRun:
    """The simulation, or ``NotFound`` where it is absent or its dataflow hidden from the viewer."""
    runs = SimulationRun.objects.select_related("dataflow__team", "proposal", "author")
    run = runs.filter(visible_to(viewer, through="dataflow__"), pk=run_id).first() if is_uuid(run_id) else None
    if run is None:
        raise NotFound("There is no such simulation.", remedy="They are kept for a month. Start another.")
    return run


def of_dataflow(viewer: Viewer, dataflow_id: UUID | str) -> QuerySet[SimulationRun]:
    """Algorithms side by side of a dataflow, the newest first; results, which are long, are read where asked for."""
    record = dataflow_for(viewer, dataflow_id)
    return SimulationRun.objects.filter(dataflow=record, kind=SIDE_BY_SIDE).select_related("author").defer("results")


def of_proposal(proposal_id: UUID | str) -> QuerySet[SimulationRun]:
    """Replays of a proposal that the caller may know of, the newest first."""
    return SimulationRun.objects.filter(proposal_id=proposal_id, kind=REPLAY).select_related("author").defer("results")


@dataclass(frozen=True)
class ReplayedLimit:
    """The result of a latency limit: its median, and in which part of the time it was missed."""

    dataflow: str
    name: str
    number: int
    limit_s: float
    middle_s: float | None
    missed: float
    latency_s: list[float | None]


@dataclass(frozen=True)
class ReplayedSide:
    """The recorded time with the estate as it is, or with the plan; figures every ten minutes."""

    title: str
    core_hours: float
    cost: float
    currency: str
    most_waiting: float
    rounds: int
    cores: list[float]
    limits: list[ReplayedLimit] = field(default_factory=list)


def sides_of(viewer: Viewer, run: SimulationRun) -> list[ReplayedSide]:
    """The results of a replay so far, with the limits of dataflows that the viewer may see."""
    ids = {limit["dataflow"] for part in run.results for limit in part["limits"]}
    names = {str(record.pk): record.name
             for record in DataflowRecord.objects.filter(visible_to(viewer), pk__in=ids)}
    return [_side(title, parts, names) for title in (NOW, THEN)
            if (parts := [part for part in run.results if part["side"] == title])]


def _side(title: str, parts: list[Mapping[str, Any]], names: Mapping[str, str]) -> ReplayedSide:
    limits: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for part in parts:
        for limit in part["limits"]:
            if limit["dataflow"] in names:
                limits.setdefault((limit["dataflow"], limit["number"]), []).append(limit)
    return ReplayedSide(
        title, sum(part["core_hours"] for part in parts), sum(part["cost"] for part in parts), parts[0]["currency"],
        max(part["most_waiting"] for part in parts), sum(part["rounds"] for part in parts),
        [cores for part in parts for cores in part["cores"]],
        [_limit(names[name], limit_parts) for (name, _), limit_parts in sorted(
            limits.items(), key=lambda entry: (names[entry[0][0]], entry[0]))])


def _limit(name: str, parts: Iterable[Mapping[str, Any]]) -> ReplayedLimit:
    some = list(parts)
    latency_s = [value for part in some for value in part["latency_s"]]
    measured = array([value for value in latency_s if value is not None], dtype=float)
    seconds = sum(part["known"] for part in some)
    return ReplayedLimit(
        some[0]["dataflow"], name, some[0]["number"], some[0]["limit_s"],
        float(median(measured[isfinite(measured)])) if len(measured) else None,
        sum(part["missed"] for part in some) / seconds if seconds else 0.0, latency_s)
