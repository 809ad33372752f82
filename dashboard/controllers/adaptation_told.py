"""Adaptation of a dataflow for pages, API and commands: its goals, what they cost and bring, and what it reached.

- ``goals_told(viewer, dataflow_id)``: the goals in force, what the dataflow reaches now, why it is left alone or not
- ``offer_told(viewer, dataflow_id, goals)``: what other goals would cost and bring at the load of now
- ``course_told(viewer, dataflow_id, span)``: value, throughput, cost and profit over time, and what comes
- ``expected_of(viewer, dataflow_id)``: what is expected to come
- ``decisions_told(viewer, dataflow_id)``: the newest rounds, with what else was looked at
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from dashboard.catalog.document_checks import InvalidGoals
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.controllers import selectors
from dashboard.controllers.models import RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.controllers.stored_rounds import policy_of_team
from dashboard.operations.live_view.estate_history import KeptHistory, Range, history_of
from dashboard.teams.permissions import Viewer
from scheduler.adaptation.shared_slots import AdaptationCandidate, offer_of
from scheduler.controllers.adapted_dataflows import AdaptedDataflow, answer_for
from scheduler.controllers.controller_registry import BY_GOALS
from scheduler.controllers.evidence.adaptations import adapted_now
from scheduler.controllers.evidence.expected_rates import ExpectedMinute, expected_minutes, speed_expectation
from scheduler.controllers.loop_values import OFF
from scheduler.history.series import DATAFLOW
from scheduler.model.dataflow_goals import DataflowGoals, goals_json
from scheduler.model.errors import NotFound

SHOWN = 20  # rounds
RECORDED = ("adapted_throughput", "adapted_value", "adapted_per_hour", "adapted_profit", "events_in_per_s",
            "expected_per_s", "expected_low_per_s", "expected_high_per_s")


@dataclass(frozen=True, slots=True)
class ToldDecision:
    """A round of adaptation, and the choices that were looked at, the greatest profit first."""

    row: RoundRow
    why: str
    looked_at: tuple[Mapping[str, Any], ...]
    algorithm: str


@dataclass(frozen=True, slots=True)
class PlannedFigures:
    """The figures that a decision was to reach, from when it was in force."""

    at_s: float
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ToldCourse:
    """The results of a dataflow, and the figures that its decisions were to reach."""

    history: KeptHistory
    planned: Sequence[PlannedFigures] = ()


def goals_told(viewer: Viewer, dataflow_id: UUID | str) -> dict[str, Any]:
    """The goals of a dataflow, who set them, what it reaches now, and why adaptation leaves it as it is."""
    record = dataflow_of(viewer, dataflow_id)
    goals = record.goals_in_force
    adapted = None if goals is None else _dataflow_with_goals(record, goals)
    answer = None if adapted is None else answer_for(adapted, settings.ADAPTATION)
    return {
        "id": str(record.pk), "goals": None if goals is None else goals_json(goals), "said_by": record.goals_from,
        "currency": settings.CURRENCY, "algorithm": settings.ADAPTATION, "mode": _mode(record),
        "now": None if answer is None else _figures(asdict(answer.now)),
        "switchable": [] if adapted is None else sorted(adapted.names.values()),
        "why": _why(viewer, record, goals, adapted)}


def offer_told(viewer: Viewer, dataflow_id: UUID | str, goals: DataflowGoals) -> dict[str, Any]:
    """The alternates of a dataflow for some goals, if its slots were made for it: alternates, and what they cost and
    bring at the load of now.

    Raises
    ------
    NotFound
        Nothing of it is measured: it does not run, or has just begun to.
    InvalidGoals
        There is more to do than is worked out.
    """
    record = dataflow_of(viewer, dataflow_id)
    adapted = _dataflow_with_goals(record, goals)
    if adapted is None:
        raise NotFound("Nothing is measured of it yet.", remedy="Ask again when it has run for a minute.")
    try:
        offer: AdaptationCandidate = offer_of(adapted.problem, adapted.conditions, algorithm=settings.ADAPTATION)
    except ValueError as error:
        raise InvalidGoals(
            f"No offer is made: {error}.", remedy="Ask again at a lower load, or of a smaller dataflow.") from error
    return {
        "id": str(record.pk), "goals": goals_json(goals), "currency": settings.CURRENCY,
        "alternates": {adapted.names[task]: name for task, name in offer.active.items() if task in adapted.names},
        "value": round(offer.value, 4), "throughput": round(offer.throughput, 4), "cores": round(offer.cores, 4),
        "per_hour": round(offer.per_hour, 6), "profit": round(offer.profit, 4)}


def course_told(viewer: Viewer, dataflow_id: UUID | str, span: Range) -> ToldCourse:
    """The recorded results of a dataflow with goals, against the figures that its decisions were to reach."""
    record = dataflow_of(viewer, dataflow_id)
    recorded = history_of(viewer, DATAFLOW, str(record.pk), span, metrics=RECORDED, annotated=False)
    rows = selectors.rounds(viewer, controller=BY_GOALS.name).filter(
        dataflow=record, changed__isnull=False, changed__lt=datetime.fromtimestamp(span.end_s, UTC))
    return ToldCourse(recorded, [
        PlannedFigures(row.changed.timestamp(), json.loads(row.decision["arguments"]["chosen"]))
        for row in rows.order_by("-changed")[:SHOWN]][::-1])


def expected_of(viewer: Viewer, dataflow_id: UUID | str) -> list[ExpectedMinute]:
    """The expected rates of the sources of a dataflow with goals in the next minutes."""
    record = dataflow_of(viewer, dataflow_id)
    return [] if record.goals_in_force is None else expected_minutes(StoredWorld(timezone.now()), str(record.pk))


def told_speed(node: str) -> str:
    """The expected speed of a node's cores in the next minutes; empty where it was never measured."""
    world = StoredWorld(timezone.now())
    forecast = world.minute_forecasts.speeds(world.history, [node], world.now_s).get(node)
    return "" if forecast is None else speed_expectation(node, forecast, world.now_s)


def decisions_told(viewer: Viewer, dataflow_id: UUID | str) -> list[ToldDecision]:
    """The newest rounds of adaptation about a dataflow."""
    record = dataflow_of(viewer, dataflow_id)
    rows = selectors.rounds(viewer, controller=BY_GOALS.name).filter(dataflow=record)[:SHOWN]
    decided = []
    for row in rows:
        arguments = row.decision["arguments"]
        decided.append(ToldDecision(
            row, row.decision["why"], tuple(json.loads(arguments["looked_at"])), arguments["algorithm"]))
    return decided


def _dataflow_with_goals(record: DataflowRecord, goals: DataflowGoals) -> AdaptedDataflow | None:
    """The dataflow as adaptation would look at it with these goals; None where nothing of it is measured."""
    world = StoredWorld(timezone.now())
    if not world.is_heard:
        return None
    world.goals = world.goals | {str(record.pk): goals}
    adapted = adapted_now(world, str(record.pk))
    return None if adapted is None else replace(adapted, goals=goals)


def _why(viewer: Viewer, record: DataflowRecord, goals: DataflowGoals | None, adapted: AdaptedDataflow | None) -> str:
    """The reason why adaptation does not do more for it now."""
    if goals is None:
        return "It has no goals: adaptation leaves it alone."
    if _mode(record) == OFF:
        return f"Adaptation is off for {record.team.name}."
    if adapted is None:
        return "Nothing is measured of it yet."
    reason = selectors.reasons(viewer, controller=BY_GOALS.name).filter(dataflow=record).first()
    newest = selectors.rounds(viewer, controller=BY_GOALS.name).filter(dataflow=record).first()
    if reason is None or (newest is not None and newest.begun > reason.until):
        return "" if newest is None else newest.decision["why"]
    return reason.why


def _mode(record: DataflowRecord) -> str:
    return policy_of_team(BY_GOALS, record.team).mode


def _figures(candidate: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(candidate[name], 6) for name in ("value", "throughput", "cores", "per_hour", "profit")}
