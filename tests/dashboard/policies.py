"""Dynamic tasks with policies: documents, proposals, and what is measured of them."""

from __future__ import annotations

import json
from typing import Any

from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.approvals.services import prepare_proposal, propose_policy
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import PostedEvent
from dashboard.operations.policies.guard_watches import GuardWatches
from dashboard.operations.policies.posted_events import post_event
from scheduler.guards.task_figures import subject_of
from scheduler.history.series import Series
from tests.dashboard.building import World, approved, document, enacted

NOW_S = 1_800_000_000
FAST = PolicyDraft({"all": "rate < 50", "few": "rate >= 50"}, kind="activation")


def switched(name: str, *, guard: str = "", kind: str = "", value: Any = 2, visibility: str = "shared") -> str:
    """A chain whose third task has two alternates, of which the document says only so much."""
    whole = json.loads(document(name, visibility=visibility))
    ways = [
        {"name": "all", "type": "sql", "config": {"query": "SELECT *, 'all' AS made FROM input"}, "value": value,
         "guard": guard},
        {"name": "few", "type": "sql", "config": {"query": "SELECT *, 'few' AS made FROM input WHERE value > 20"}}]
    whole["tasks"][2] = {"id": "work", "alternates": ways} | ({"guards": kind} if kind else {})
    whole["streams"] = [
        {key: {"average": "work"}.get(end, end) for key, end in stream.items()} for stream in whole["streams"]]
    return json.dumps(whole)


def two(name: str = "two") -> str:
    """A chain with two dynamic tasks, work and more."""
    whole = json.loads(switched(name))
    whole["tasks"].append({"id": "more", "alternates": [
        {"name": name, "type": "sql", "config": {"query": f"SELECT *, '{name}' AS step FROM input"}, "value": value}
        for name, value in (("long", 2), ("short", 1))]})
    whole["streams"] = [
        {**stream, "to": "more"} if stream["from"] == "work" else stream for stream in whole["streams"]]
    whole["streams"].append({"from": "more", "to": "out"})
    return json.dumps(whole)


def proposed(world: World, record: DataflowRecord, draft: PolicyDraft | None = FAST, **more: Any) -> Proposal:
    return prepare_proposal(proposal_id=propose_policy(
        actor=world.carla, dataflow_id=record.pk, task="work", draft=draft, **more).pk)


def in_force(world: World, record: DataflowRecord, draft: PolicyDraft | None = FAST, **more: Any) -> Proposal:
    return enacted(approved(proposed(world, record, draft, **more), world.ana))


def rates(per_s: float) -> dict[Series, float]:
    """What is measured of the one dynamic task: events that reach it."""
    estate = load_estate()
    [task] = [task.id for task in estate.tasks.values() if task.type == "dynamic"]
    return {subject_of(estate, task).series("rate")[0]: per_s}


def wanted(watches: GuardWatches, *, second: int, per_s: float = 20.0, more: dict[Series, float] | None = None) -> list:
    return [switch.alternate for switch in watches.look(load_estate(), rates(per_s) | (more or {}), NOW_S + second)]


def posted(world: World) -> PostedEvent:
    return post_event(actor=world.carla, team=world.city, stream="alarm", values={"level": 1})
