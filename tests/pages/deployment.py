"""Queries on slots as tests want them: what nodes report of them, and a dataflow that is spread over nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import FragmentRow
from dashboard.operations.services import register_node
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.model.fragment import Slot, node_of
from tests.dashboard.building import World, document, running
from workers.engine.observed import Flows, TaskFlow


def reading(cpu: Mapping[str, float] | None = None) -> jobs.LiveReading:
    """Every query takes nearly a core, or so much CPU, and every task gives 10 events/s."""
    nodes: dict[str, dict] = {}
    estate = load_estate()
    for fragment in estate.fragments.values():
        node = nodes.setdefault(node_of(fragment.slot), {"node": node_of(fragment.slot), "slots": {}})
        slot = node["slots"].setdefault(str(Slot.of(fragment.slot).index), {"state": "running", "fragments": {}})
        slot["fragments"][fragment.id] = {"state": "running", "cpu": (cpu or {}).get(fragment.id, 0.95)}
    flows = Flows(tasks={task: TaskFlow(10.0, 100, 20.0, 30.0) for task in estate.tasks})
    return jobs.LiveReading(reports=Reports.of(nodes), flows=flows)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes with queries report, and events have 50 bytes."""
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading())
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: dict.fromkeys(channels, 50.0))
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {})


@pytest.fixture
def unchained(world: World, heard: None, monkeypatch: pytest.MonkeyPatch, settings) -> DataflowRecord:
    """A dataflow of four queries that take little, beside a second node; any traffic is worth a move."""
    settings.DEPLOYMENT_LEAST_KB_S = 0.0
    register_node(name="n2", slots=2)
    text = json.loads(document("line"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(cpu=dict.fromkeys(load_estate().fragments, 0.05)))
    return record


@pytest.fixture
def halves(unchained: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> DataflowRecord:
    """The same on n1 and n2; what n3 has is idle, and it reports as they do."""
    register_node(name="n3", slots=1)
    for number, fragment in enumerate(FragmentRow.objects.order_by("pk")):
        fragment.slot = ("n1/0", "n1/1", "n2/0", "n2/1")[number]
        fragment.save()
    hears(monkeypatch, "n1", "n2", "n3")
    return unchained


def hears(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """These nodes alone report."""
    def read() -> jobs.LiveReading:
        live = reading(cpu=dict.fromkeys(load_estate().fragments, 0.05))
        return replace(live, reports=Reports(
            {name: live.reports.get(name) or NodeReport(node=name) for name in names}))

    monkeypatch.setattr(jobs, "read_live", lambda *_: read())
