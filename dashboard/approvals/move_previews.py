"""The effects of a move before it is proposed: gain, pause, risks, and the teams that have to agree; or why it is
refused.

- ``preview_of(actor, dataflow_id, query=…, slot=…, along=…)``: of a move that somebody has in mind
- ``deployment_with_suggestion(actor)``: what runs where, and a worthwhile move with its preview

The planner of proposals makes the plan, which is thrown away: it tells what is refused, what stands still, and which
teams are asked. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.conf import settings

from dashboard import jobs
from dashboard.approvals.demands import team_demands
from dashboard.approvals.services.rearrangement_proposals import planned_move, require_movable
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.live_view.deployment_reader import Looked, deployment_rows, look, thresholds
from dashboard.operations.live_view.document_fields import DataflowUser
from dashboard.operations.live_view.handover_pauses import expected_pause_ms, usual_pause_ms
from dashboard.operations.live_view.move_risks import risks_of
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.deployment.foreseeing import Foreseen, foresee
from scheduler.deployment.online import decide, lacking_in_words
from scheduler.interruptions import interruptions_of
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.fragment import node_of
from scheduler.model.plan import Plan


@dataclass(frozen=True, slots=True)
class SlotThen:
    """The load of a slot that a move leaves or goes to, in cores, before and after; and how much that is then."""

    slot: str
    cores: float
    after: float
    load: Literal["high", "normal", "low"]


@dataclass(frozen=True, slots=True)
class TeamToAgree:
    """A team that a move concerns: how many approvals it demands, and of whom; 0 where it agreed beforehand."""

    slug: str
    name: str
    approvals: int
    role: str


@dataclass(frozen=True, slots=True)
class MovePreview:
    """A move of a dataflow's query, and of the queries ``along`` with it, to a slot: its effects, or why it is refused.

    ``refused``, ``remedy``: empty if it can be proposed now; ``is_planned``: there is a plan of it, which all other
    fields describe; ``slots``: those that it leaves and, last, the one that it goes to; ``saved_bytes_per_s``: how much
    less passes between nodes, of ``between_bytes_per_s`` now (null: unknown), negative for more; ``pause_s``: for how
    long an output stands still, about; ``pause_at_most_s``: its bound in 19 of 20 moves; ``may_propose``: the caller
    may propose it.
    """

    dataflow: DataflowUser
    query: str
    along: tuple[str, ...]
    slot: str
    may_propose: bool
    refused: str = ""
    remedy: str = ""
    is_planned: bool = False
    slots: tuple[SlotThen, ...] = ()
    between_bytes_per_s: float | None = None
    saved_bytes_per_s: float | None = None
    between_nodes: bool = False
    pause_s: float = 0.0
    pause_at_most_s: float = 0.0
    risks: tuple[str, ...] = ()
    teams: tuple[TeamToAgree, ...] = ()

    @property
    def traffic(self) -> str:
        """The traffic then and now, in a sentence; empty where that is not known."""
        saved, now = self.saved_bytes_per_s, self.between_bytes_per_s
        if saved is None or now is None:
            return ""
        if not saved:
            return f"As much passes between nodes as now: {_amount(now)} a second."
        return (f"{_amount(abs(saved))} a second {'less' if saved > 0 else 'more'} pass between nodes then: "
                f"{_amount(now - saved)}; {_amount(now)} now.")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A ``move`` that is worth it by present measurements, or None; why, and how many cores are ``lacking``."""

    why: str
    lacking: float
    move: MovePreview | None


def preview_of(
    actor: User, dataflow_id: UUID | str, *, query: str, slot: str, along: Sequence[str] = ()
) -> MovePreview:
    """The effects of a move of a dataflow's query; nothing is proposed.

    Parameters
    ----------
    actor : User
        The author: somebody of the dataflow's team.
    """
    viewer = viewer_of(actor)
    record = dataflow_for(viewer, dataflow_id)
    require_role(viewer, record.team, Role.VIEWER)
    return _preview(actor, record, look(), query=query, slot=slot, along=tuple(dict.fromkeys(along)))


def deployment_with_suggestion(actor: User) -> dict[str, Any]:
    """`deployment_rows`, and as ``suggestion`` a move of the actor's own queries that is worth it now, or why none is;
    None where nothing is heard of what runs. Unlike the controller's decisions it is of one moment."""
    looked = look()
    rows = deployment_rows(viewer_of(actor), looked)
    return rows | {"suggestion": None if looked is None else _suggestion(actor, looked, {
        query["id"]: query["dataflow"] for row in rows["slots"] for query in row["queries"] if query["targets"]})}


def _suggestion(actor: User, looked: Looked, dataflows: Mapping[str, Mapping[str, str]]) -> Suggestion:
    limits = thresholds()
    deployed = decide(
        looked.deployment.moving_only(dataflows), limits,
        groups={query: [dataflow["id"]] for query, dataflow in dataflows.items()})
    lacking = lacking_in_words(
        deployed.lacking, limits, slot_price=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY)
    move = None
    if deployed.move is not None:
        query, *along = deployed.move.bundles
        record = dataflow_for(viewer_of(actor), dataflows[query]["id"])
        move = _preview(actor, record, looked, query=query, slot=deployed.move.target, along=tuple(along))
    return Suggestion(f"{deployed.why} {lacking}".rstrip(), deployed.lacking, move)


def _preview(
    actor: User, record: DataflowRecord, looked: Looked | None, *, query: str, slot: str, along: tuple[str, ...]
) -> MovePreview:
    facts: dict[str, Any] = {
        "dataflow": {"id": str(record.pk), "name": record.name, "team": record.team.name}, "query": query,
        "along": along, "slot": slot,
        "may_propose": viewer_of(actor).has_role(record.team_id, Role.ENGINEER)}
    try:
        plan = planned_move(record, query=query, slot=slot, along=along)
    except WeirError as error:
        return MovePreview(**facts, refused=error.message, remedy=error.remedy)
    try:
        require_movable(actor, record)
        _require_heard(looked, slot)
    except WeirError as error:
        facts |= {"refused": error.message, "remedy": error.remedy}
    return MovePreview(**facts, is_planned=True, **_foreseen(plan, record, looked, (query, *along), slot))


def _require_heard(looked: Looked | None, slot: str) -> None:
    """Raise where the slot's node does not report now, though it did a moment ago."""
    if looked is None or node_of(slot) not in looked.view.reading.reports:
        raise InvalidTransition(
            f"{node_of(slot)} does not report now.", remedy="Wait until it reports, or choose another node.")


def _foreseen(
    plan: Plan, record: DataflowRecord, looked: Looked | None, queries: Sequence[str], slot: str
) -> dict[str, Any]:
    """The expected effects of a plan: without a reading, what does not need one."""
    reports = looked.view.reading.reports if looked is not None else jobs.LiveReading().reports
    facts_of: dict[str, Any] = {
        "between_nodes": any(interruption.between_nodes for interruption in interruptions_of(plan)),
        "pause_s": round(usual_pause_ms(plan, reports) / 1000, 2),
        "pause_at_most_s": round(expected_pause_ms(plan, reports) / 1000, 2),
        "teams": tuple(
            TeamToAgree(
                team_demand.team.slug, team_demand.team.name, team_demand.demand.approvals, team_demand.demand.role)
            for team_demand in team_demands(plan, owner=record.team))}
    if looked is None:
        return facts_of | {"risks": ("No node reports, so loads and traffic are not known.",)}
    foreseen = foresee(
        looked.deployment, [name for name in queries if name in looked.deployment.bundles], slot, thresholds())
    return facts_of | {
        "slots": tuple(
            SlotThen(change.slot, round(change.before, 3), round(change.after, 3), change.load)
            for change in foreseen.slots),
        "between_bytes_per_s": round(foreseen.between_before, 1), "saved_bytes_per_s": round(foreseen.saved, 1),
        "risks": tuple(_risks(looked, foreseen, queries, slot))}


def _risks(looked: Looked, foreseen: Foreseen, queries: Sequence[str], slot: str) -> list[str]:
    risks = []
    if foreseen.makes_high:
        cores = foreseen.slots[-1].after
        risks.append(f"{slot} has too much to do then: {cores:.2f} cores, and {thresholds().high:g} are high.")
    for name in queries:
        if name in looked.view.fragment_of:
            risks += risks_of(looked.view, name, slot)
    return risks


def _amount(size: float) -> str:
    return f"{size / 1000:,.1f} kB" if size >= 1000 else f"{size:.0f} bytes"
