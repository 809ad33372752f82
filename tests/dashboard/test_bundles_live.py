"""What live documents say of dataflows whose fragments are divided over slots."""

from __future__ import annotations

import pytest

from dashboard import jobs
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.notable import notable_events
from dashboard.operations.models import FragmentRow
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from tests.dashboard.building import World, document, running

RUNS = {"state": "running", "error": None, "batch": 7}
FAILS = {"state": "backoff", "error": "no such host", "retry_at_ms": 7}


def observe(monkeypatch: pytest.MonkeyPatch, **bundles: dict[str, object]) -> None:
    """Node n1 reports of ``first`` on its slot 0, and of ``second`` on slot 1."""
    slots = {
        str(index): {"state": "running", "cpu": 0.1, "memory_mb": 512, "fragments": {key: bundles[name]}
                     if name in bundles else {}}
        for index, (name, key) in enumerate({"first": "f2-0", "second": "f9-9"}.items())}
    reading = jobs.LiveReading(reports=Reports.of({"n1": {"memory_mb": 4096, "slots": slots}}))
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading)


@pytest.mark.parametrize(("bundles", "state"), [
    ({"first": RUNS, "second": RUNS}, "running"), ({"first": RUNS, "second": FAILS}, "backoff"),
    ({"first": FAILS, "second": RUNS}, "backoff"), ({"first": RUNS}, "starting"),
])
def test_a_divided_dataflow_is_as_well_as_its_worst_bundle(
    world: World, monkeypatch: pytest.MonkeyPatch, bundles: dict[str, dict[str, object]], state: str
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    fragment = FragmentRow.objects.get()
    assert fragment.pk == "f2-0"
    FragmentRow.objects.update(slot="n1/0", bundles=[
        {"id": "f2-0", "slot": "n1/0", "threads": 2, "weight": 0.6},
        {"id": "f9-9", "slot": "n1/1", "threads": 1, "weight": 0.4},
        {"id": "f8-8", "slot": "n1/1", "threads": 1, "weight": 0.0}])  # leaving: whatever becomes of it
    observe(monkeypatch, **bundles)
    viewer = viewer_of(world.carla)
    live, estate = live_dataflow(viewer, record.pk), live_estate(viewer)
    assert live["totals"]["state"] == state
    assert {task["slot"] for task in live["tasks"].values()} == {"n1/0 and 1 more"}
    failing = {key for key, bundle in zip(("f2-0", "f9-9"), bundles.values(), strict=False) if bundle is FAILS}
    assert set(estate["health"]) == {f"query/{key}" for key in failing}
    slots = {"query/f2-0": "n1/0", "query/f9-9": "n1/1"}
    assert all(health["slot"] == slots[key] for key, health in estate["health"].items())
    assert {name: slot["fragments"] for name, slot in estate["slots"].items()} == {"n1/0": 1, "n1/1": 2}


def test_what_happened_to_any_of_its_bundles_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    FragmentRow.objects.update(bundles=[
        {"id": "f2-0", "slot": "n1/0", "threads": 1, "weight": 0.5},
        {"id": "f9-9", "slot": "n1/1", "threads": 1, "weight": 0.5}])
    monkeypatch.setattr(jobs, "notable_events", lambda: [
        {"kind": "fragment_failed", "fragment": key, "error": "out of memory", "at_ms": 5}
        for key in ("f2-0", "f9-9", "f7-7")])
    assert [event.fragment for event in notable_events(viewer_of(world.carla), record.pk)] == ["f2-0", "f9-9"]
