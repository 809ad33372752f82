"""Who pauses, resumes and cancels a sweep: who asked for it, or the team whose dataflow it measures a task of."""

from __future__ import annotations

import pytest

from dashboard.operations.models import SlotRow
from dashboard.operations.services import register_node
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.sweeps import cancel_sweep, pause_sweep, resume_sweep, start_sweep
from dashboard.profiles.targets import target_of_task
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import PermissionDenied
from tests.cases import each
from tests.dashboard.building import World, document, running
from tests.profiles.building import slot, started
from tests.profiles.nodes import Node


@each("steer", [pause_sweep, cancel_sweep, resume_sweep])
@each("who, may", [
    ("carla", True), ("root", True), ("mo", False), ("ben", False), ("ana", False), ("vera", False)])
def test_a_sweep_of_a_type_is_steered_by_who_asked_for_it(world: World, node: Node, steer, who: str, may: bool):
    sweep = started(world)
    if steer is resume_sweep:
        pause_sweep(actor=world.carla, sweep_id=sweep.pk)
    if may:
        steer(actor=world.users[who], sweep_id=sweep.pk)
    else:
        with pytest.raises(PermissionDenied):
            steer(actor=world.users[who], sweep_id=sweep.pk)
        assert SweepRecord.objects.get(pk=sweep.pk).status == (
            "paused" if steer is resume_sweep else sweep.status)


@pytest.mark.parametrize(("who", "may"), [
    ("carla", True), ("ana", True), ("dev", True), ("mo", False), ("vera", False)])
def test_a_sweep_of_a_shared_dataflow_is_steered_by_its_team(world: World, node: Node, who: str, may: bool):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    free = next(row.name for row in SlotRow.objects.all() if not row.queries)
    sweep = start_sweep(actor=world.carla, target=target_of_task(viewer_of(world.carla), record.pk, "parse"), slot=free)
    if may:
        cancel_sweep(actor=world.users[who], sweep_id=sweep.pk)
    else:
        with pytest.raises(PermissionDenied):
            cancel_sweep(actor=world.users[who], sweep_id=sweep.pk)


def test_sweeps_of_one_teams_people_leave_half_of_the_free_slots_to_others(world: World, node: Node, settings):
    register_node(name="n2", slots=4)
    names = ["n1/0", "n1/1", "n2/0", "n2/1", "n2/2", "n2/3"]
    ours = [started(world, actor=world.users[who], slot=name)
            for who, name in zip(("carla", "ana", "carla", "ana"), names, strict=False)]
    theirs = [started(world, actor=world.mo, slot=name) for name in names[4:]]
    node.run()
    assert [name for name in names if slot(name).reserved_for] == [*names[:3], *names[4:]], "three of six, and others'"
    waiting = SweepRecord.objects.get(pk=ours[3].pk)
    assert waiting.status == "queued" and "measure on 3 slots" in waiting.reason
    cancel_sweep(actor=world.carla, sweep_id=ours[0].pk)
    node.run()
    assert SweepRecord.objects.get(pk=ours[3].pk).status == "running"
    for sweep in ours[1:]:
        cancel_sweep(actor=world.root, sweep_id=sweep.pk)
    settings.TEAM_SWEEPS = 1
    again = [started(world, slot=name) for name in names[:2]]
    node.run()
    assert [SweepRecord.objects.get(pk=sweep.pk).status for sweep in (*again, *theirs)] == [
        "running", "queued", "running", "running"]


def test_where_one_slot_alone_is_free_it_may_be_measured_on(world: World, node: Node):
    running(world.carla, world.city, document("traffic"), world.ana)
    free = next(row.name for row in SlotRow.objects.all() if not row.queries)
    sweep = started(world, slot=free)
    node.run()
    assert SweepRecord.objects.get(pk=sweep.pk).status == "running"
