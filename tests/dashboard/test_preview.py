"""Before submission: the preview says what the plan will say, stores nothing, and knows of no private dataflow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.approvals.models import Proposal
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.preview import preview_submission
from dashboard.operations.models import EstateState, NodeRow, SlotRow
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidDataflow, WeirError
from tests.dashboard.building import World, document, planned, running


def preview(world: World, name: str, text: str, team: str = "mobility") -> dict:
    return preview_submission(viewer_of(world.users[name]), team=getattr(world, team), text=text)


def test_it_says_what_the_plan_will_say(world: World, settings) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    text = document("jams", window=20)
    shown = preview(world, "mo", text)
    plan = plan_of(planned(world.mo, world.mobility, text).plan)
    assert (shown.reused, shown.started) == (len(plan.reused), len(plan.started)) == (2, 2)
    assert shown.reused_ids == ["sense", "parse"]
    assert (shown.cores_added, shown.whole) == (plan.price.cores_delta, plan.price.whole)
    assert shown.money_error == plan.price.cores_error * settings.CORE_HOUR_PRICE
    assert shown.cores_saved == pytest.approx(shown.whole.cores - shown.cores_added)
    assert shown.sources == [{"id": str(traffic.pk), "name": "traffic", "team": "City", "tasks": 2}]
    assert shown.more_sources == 0
    assert [user["name"] for user in shown.users["parse"]] == ["traffic"]


def test_it_stores_nothing(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    tables = (DataflowRecord, PlanRecord, Proposal, AuditEntry)
    before = [table.objects.count() for table in tables], EstateState.objects.get().generation
    preview(world, "mo", document("jams", window=20))
    with pytest.raises(InvalidDataflow):
        preview(world, "mo", "name: x")
    assert ([table.objects.count() for table in tables], EstateState.objects.get().generation) == before


@pytest.mark.parametrize("visibility", ["shared", "private"])
def test_a_private_dataflow_of_another_team_changes_nothing_in_it(world: World, visibility: str) -> None:
    text = document("mine", visibility=visibility)
    before = preview(world, "mo", text)
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    after = preview(world, "mo", text)
    assert replace(before, dataflow=after.dataflow) == after
    assert after.reused == 0


def test_a_private_dataflow_reuses_private_tasks_of_its_own_team(world: World) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    running(world.carla, world.city, document("open"), world.ana)
    shown = preview(world, "carla", document("hush-too", visibility="private", window=20), "city")
    assert [source["name"] for source in shown.sources] == ["hush"]


def test_a_name_that_is_taken_is_told_before(world: World) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    text = document("traffic", window=20)
    assert preview(world, "carla", text, "city").taken == traffic
    assert preview(world, "dev", text, "mobility").taken is None


def test_an_estate_without_slots_is_said(world: World) -> None:
    SlotRow.objects.all().delete()
    NodeRow.objects.all().delete()
    with pytest.raises(WeirError) as error:
        preview(world, "mo", document("jams"))
    assert error.value.code == "no_slots"
