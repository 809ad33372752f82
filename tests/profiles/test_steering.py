"""Who pauses, resumes and cancels a sweep: who asked for it, or the team whose dataflow it measures a task of."""

from __future__ import annotations

import pytest

from dashboard.operations.models import SlotRow
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.sweeps import cancel_sweep, pause_sweep, resume_sweep, start_sweep
from dashboard.profiles.targets import target_of_task
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import PermissionDenied
from tests.cases import each
from tests.dashboard.building import World, document, running
from tests.profiles.building import started
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
