"""Proposals for what runs already: pause a dataflow, resume it, defragment it, remove it, move queries of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from dashboard.approvals.lifecycle import STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.alternate_holds import require_hold
from dashboard.approvals.services.enacting import require_calm
from dashboard.approvals.services.submission import (
    asked_again,
    give_up,
    open_proposal,
    plan_anew,
    require_at_rest,
    require_status,
)
from dashboard.audit.trail import Audit, audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.plans.computing import compute
from dashboard.plans.models import PlanRecord
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role
from scheduler.model.names import require_plain
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import DEFRAGMENT, MOVE, PAUSE, REMOVE, RESUME, SET, PlanKind

LONGEST_REASON = 300  # characters


def pause_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a running dataflow rests; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=PAUSE)


def pause_at_once(*, actor: User, dataflow_id: UUID | str, reason: str) -> Proposal:
    """Emergency stop: pause a running dataflow as soon as that is planned, which nobody has to approve.

    Other dataflows that share its tasks go on. No freeze or window of a team holds it up, no other plan of the dataflow
    that is under way, and of the dataflow's first ten within an hour no limit of proposals or plans. A pause that waits
    for approval gives way to it. What another plan was about to start rests: nothing more is to come of it. Alerts tell
    the team (`emergency_stops`).

    Parameters
    ----------
    actor : User
        At least engineer in the dataflow's team.
    reason : str
        The reason, in 1 to 300 characters on one line.

    Raises
    ------
    NameNotPlain
        The reason is empty, too long, or holds what cannot be seen.
    InvalidTransition
        The dataflow does not run.
    """
    reason = require_plain(reason.strip(), what="The reason", most=LONGEST_REASON)
    with audited(actor=actor, verb="dataflow.pause_at_once") as audit:
        lock_generation()
        viewer = audit.viewer
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        waiting = Proposal.objects.open().filter(dataflow=record, plan__kind=PAUSE.name).select_related(
            "plan", "dataflow__team")
        already = waiting.filter(plan__options__at_once=True).first()
        if already is not None:
            return asked_again(audit, already, actor=actor)
        require_status(record, SITE_PLAN_KINDS[PAUSE.name].proposed_from, PAUSE.name)
        for slower in waiting:
            give_up(audit, slower)
        proposal = open_proposal(audit, record, PAUSE.name, options={"why": reason, "at_once": True})
        audit.subject, audit.team = record, record.team
        audit.details = {"proposal": str(proposal.pk), "reason": reason}
        return proposal


def resume_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a paused dataflow goes on; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=RESUME)


def defragment_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose a step of defragmentation; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=DEFRAGMENT)


def remove_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose to remove a running dataflow, also one whose plan fails: that ends with it.

    An open proposal to do so is returned as it is.
    """
    return _propose(actor, dataflow_id, kind=REMOVE)


REARRANGEMENTS: Mapping[str, Callable[..., Proposal]] = {  # what is asked for by a dataflow's id alone
    PAUSE.name: pause_dataflow, RESUME.name: resume_dataflow, DEFRAGMENT.name: defragment_dataflow,
    REMOVE.name: remove_dataflow}


def move_query(
    *, actor: User, dataflow_id: UUID | str, query: str, slot: str, along: Sequence[str] = ()
) -> Proposal:
    """Propose that one of a dataflow's queries, or several, go on in another slot; an open proposal of just that is
    returned as it is.
    """
    return _propose(actor, dataflow_id, kind=MOVE, **_move(query, slot, along))


def switch_alternate(
    *, actor: User, dataflow_id: UUID | str, task: str, alternate: str,
    along: Mapping[str, str] = MappingProxyType({}), hold_s: float | None = None, at_once: bool = False,
) -> Proposal:
    """Propose that a dynamic task of a dataflow is done by another alternate, for all who use it; an open proposal of
    just that is returned as it is.

    Parameters
    ----------
    hold_s : float, optional
        For how long the alternate is held, whatever policies want: from a minute to 31 days; an hour by default. With
        it the alternate may be the one that is on already. If another one is warming up, that ends.
    at_once : bool, optional
        True if it is switched on without warming up, or before that is over.
    """
    require_hold(hold_s)
    hold_options = {} if hold_s is None else {"hold_s": hold_s}
    others = {**({"along": dict(along)} if along else {}), **({"at_once": True} if at_once else {})}
    return _propose(actor, dataflow_id, kind=SET, task=task, alternate=alternate, **others, **hold_options)


def propose_setting(*, actor: User, dataflow_id: UUID | str, **options: Any) -> Proposal:
    """Propose a plan of kind ``set`` by these options; an open proposal of just that is returned as it is."""
    return _propose(actor, dataflow_id, kind=SET, **options)


def _move(query: str, slot: str, along: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "slot": slot} | ({"along": list(along)} if along else {})


def _propose(actor: User, dataflow_id: UUID | str, *, kind: PlanKind, **options: Any) -> Proposal:
    with audited(actor=actor, verb=f"dataflow.propose_{kind.name}") as audit:
        lock_generation()
        viewer = audit.viewer
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        same_options = {"plan__options": options} if options else {}
        already = Proposal.objects.open().filter(dataflow=record, plan__kind=kind.name, **same_options).first()
        if already is not None:
            return asked_again(audit, already, actor=actor)
        _require_open(actor, record, kind, is_policy="policy" in options)
        proposal = open_proposal(audit, record, kind.name, options=options)
        audit.subject, audit.team = record, record.team
        audit.details = {"proposal": str(proposal.pk), **options}
        return proposal


def _require_open(actor: User, record: DataflowRecord, kind: PlanKind, *, is_policy: bool = False) -> None:
    """Raise where no plan of this kind can be proposed for a dataflow as things stand; a policy touches no query."""
    require_at_rest(record, SITE_PLAN_KINDS[kind.name].proposed_from, kind.name)
    if kind.moves_queries and not is_policy:
        require_calm(actor)


def require_movable(actor: User, record: DataflowRecord) -> None:
    """Raise where no query of a dataflow can be moved as things stand."""
    _require_open(actor, record, MOVE)


def planned_move(record: DataflowRecord, *, query: str, slot: str, along: Sequence[str] = ()) -> Plan:
    """The plan of a move that nobody has proposed; nothing is written. Raises as planning does."""
    return compute(
        PlanRecord(
            kind=MOVE.name, dataflow=record, version=record.version, options=_move(query, slot, along)),
        stored_estate())


def open_pause(audit: Audit, record: DataflowRecord, *, why: str, failed: str = "") -> Proposal | None:
    """Weir's own proposal that a dataflow rests, or another plan of the one that waits; None where a plan of it is
    under way, or one that is proposed can still be approved.
    """
    mine = Proposal.objects.filter(dataflow=record)
    already = mine.open().filter(plan__kind=PAUSE.name).select_related("plan", "dataflow__team").first()
    if already is not None and already.author_id is None and already.status in {STALE, UNPLANNABLE}:
        plan_anew(actor=None, proposal=already, options=already.plan.options)
        return None
    if already is not None or mine.under_way().exists():
        return None
    return open_proposal(audit, record, PAUSE.name, options={"why": why} | ({"failed": failed} if failed else {}))


def open_switch(audit: Audit, record: DataflowRecord, options: Mapping[str, Any]) -> Proposal:
    """Weir's own proposal that a dynamic task is done by another alternate."""
    return open_proposal(audit, record, SET.name, options=options)


def open_move(audit: Audit, record: DataflowRecord, options: Mapping[str, Any]) -> Proposal:
    """Weir's own proposal that queries go on in another slot."""
    return open_proposal(audit, record, MOVE.name, options=options)
