"""Selectivities multiply along a path: whatever a document states, its plan can be approved and enacted, and no plan of
others waits for it."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import enact_held, plan_holds
from scheduler.approving import Freeze, Rules
from tests.dashboard.building import World, approved, document, planned, ruled
from tests.dashboard.test_api import client_of

pytestmark = pytest.mark.django_db


def multiplying(name: str, tasks: int) -> str:
    """A chain in which each task makes a million events of one: more than whole numbers hold, or floats."""
    chain = ["sense", "parse", *(f"keep{number}" for number in range(tasks)), "out"]
    types = {"sense": ("urban_sensing", {}), "parse": ("senml_parse", {}), "out": ("output", {"name": name})}
    return json.dumps({
        "name": name, "rates": {"sense": 1e7},
        "tasks": [
            {"id": task, "type": kind, "config": config} for number, task in enumerate(chain) for kind, config in [
                types.get(task, ("range_filter", {"ranges": {"temperature": [number, 100]}}))]],
        "streams": [{"from": before, "to": after, "selectivity": 1e6} for before, after in pairwise(chain)]})


@pytest.mark.parametrize("tasks", [2, 60])
def test_what_multiplies_is_planned_and_approved(world: World, tasks: int) -> None:
    text = multiplying("fast", tasks)
    preview = client_of(world.carla).post("/dataflows/preview", {"text": text, "format": "json", "team": "city"})
    assert preview.status_code == 200
    assert approved(planned(world.carla, world.city, text), world.ana).status == "executing"


def test_a_held_plan_that_cannot_be_enacted_holds_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    until = timezone.now() + timedelta(hours=1)
    freeze = Freeze(int(timezone.now().timestamp() * 1000) - 1, int(until.timestamp() * 1000), "holidays")
    ruled(world.city, Rules(freezes=(freeze,)), world.abe, world.ana)
    bad, good = (approved(planned(world.carla, world.city, document(name, window=window)), world.ana)
                 for name, window in (("bad", 3), ("good", 4)))
    assert bad.held and good.held
    execute = plan_holds.execute

    def defective(audit: object, proposal: Proposal, **named: int) -> None:
        if proposal.pk == bad.pk:
            raise OverflowError("int too large")
        execute(audit, proposal, **named)

    monkeypatch.setattr(plan_holds, "execute", defective)
    assert enact_held(at=until + timedelta(hours=1)) == [good.pk]
