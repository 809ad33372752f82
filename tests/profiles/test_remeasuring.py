"""Re-measuring on drift as a controller: accepted, turned down, or done by itself; kept, or taken back."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from dashboard import jobs
from dashboard.controllers import selectors
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.services import set_mode
from dashboard.operations.models import NodeRow
from dashboard.profiles.models import ObservationRow, ProfileRecord, SweepRecord
from dashboard.profiles.selectors import suggested
from dashboard.profiles.services.sweeps import cancel_sweep, resume_sweep
from dashboard.teams.permissions import viewer_of
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import Policy
from scheduler.model.errors import InvalidTransition, PermissionDenied
from scheduler.performance.modelling import Sweep
from tests.dashboard.building import World
from tests.dashboard.controlling import Loop, phases
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from tests.profiles.building import started
from tests.profiles.nodes import Node


@pytest.fixture
def loop(world: World, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    NodeRow.objects.update(machine="cpu-a")
    return Loop(world)


@pytest.fixture
def old(world: World, loop: Loop, node: Node) -> ProfileRecord:
    """A measured profile that running bundles contradict."""
    record = node.finish(started(world, bounds=Sweep(largest_threads=1, budget_s=600.0))).profile
    drifts(record, observed=0.9)
    return record


def drifts(record: ProfileRecord, *, observed: float) -> None:
    """Let running bundles take so much CPU where the profile says half of a slot."""
    ProfileRecord.objects.filter(pk=record.pk).update(drifts=[{
        "what": "cpu", "threads": 1, "expected": 0.5, "observed": observed, "beyond": abs(observed - 0.5) > 0.125}])


def in_use() -> list[ProfileRecord]:
    return list(ProfileRecord.objects.filter(active=True))


def test_it_asks_whoever_may_measure_and_measures_in_their_name(
    world: World, loop: Loop, node: Node, old: ProfileRecord, client_of: ClientOf
):
    loop.run()
    row = RoundRow.objects.get(controller="remeasuring")
    loop.run()
    assert phases("remeasuring") == ["asked"] and "90% of a slot's CPU where it says 50%" in row.decision["why"]
    row.refresh_from_db()
    assert row.sweep.status == "suggested", "nothing is measured before somebody says so"
    start = f"/profiles/sweeps/{row.sweep.pk}/resume"
    assert not Markup(client_of("vera").get(f"/profiles/sweeps/{row.sweep.pk}/").text).submits(start)
    assert Markup(client_of("mo").get(f"/profiles/sweeps/{row.sweep.pk}/").text).submits(start)
    frame = client_of("mo").get("/").text
    assert re.search(r'title="1 to measure again"[^>]*>1<', frame)
    assert (suggested(viewer_of(world.mo)).count(), suggested(viewer_of(world.vera)).count()) == (1, 0)
    with pytest.raises(PermissionDenied):
        resume_sweep(actor=world.vera, sweep_id=row.sweep.pk)
    sweep = resume_sweep(actor=world.mo, sweep_id=row.sweep.pk)
    assert (sweep.author, sweep.slot) == (world.mo, "n1/1")
    with pytest.raises(InvalidTransition):
        resume_sweep(actor=world.mo, sweep_id=row.sweep.pk)
    new = node.finish(sweep).profile
    loop.run()
    assert phases("remeasuring") == ["checking"] and in_use() == [new]
    drifts(new, observed=0.55)
    loop.run()
    assert phases("remeasuring") == ["kept"]


@pytest.mark.long  # tests/dashboard/test_open_batches.py has what people turn down
def test_what_is_turned_down_is_left_in_peace_for_a_day(world: World, loop: Loop, old: ProfileRecord):
    loop.run()
    loop.run()
    cancel_sweep(actor=world.carla, sweep_id=RoundRow.objects.get().sweep_id)
    for _ in range(3):
        loop.run(later_s=310)
    assert phases("remeasuring") == ["declined"]
    assert RoundRow.objects.get().why == "The sweep was cancelled."
    assert ReasonRow.objects.first().why.startswith("It was turned down")
    loop.run(later_s=86_400)
    assert phases("remeasuring") == ["declined", "begun"]


@pytest.mark.long  # tests/dashboard/test_controllers.py takes back what did not come
def test_where_it_acts_a_profile_that_fits_worse_is_taken_back(
    world: World, loop: Loop, node: Node, old: ProfileRecord
):
    acts_for_all(world)
    loop.run()
    loop.run()
    sweep = SweepRecord.objects.get(round__isnull=False)
    assert (sweep.author, sweep.author_name) == (None, "Weir")
    new = node.finish(sweep).profile
    loop.run()
    drifts(new, observed=1.4)
    loop.run()
    assert phases("remeasuring") == ["checking"], "it has two hours to fit"
    loop.run(later_s=7_200)
    assert in_use() == [old]
    loop.run()
    assert phases("remeasuring") == ["rolled_back"]


def test_a_sweep_that_finds_nothing_is_not_begun_again_at_once(
    world: World, loop: Loop, node: Node, old: ProfileRecord
):
    acts_for_all(world)
    loop.run()
    cancel_sweep(actor=world.carla, sweep_id=SweepRecord.objects.get(round__isnull=False).pk)
    for _ in range(3):
        loop.run(later_s=310)
    assert (phases("remeasuring"), SweepRecord.objects.count()) == (["declined"], 2)


def test_without_a_free_slot_it_says_so(world: World, loop: Loop, old: ProfileRecord):
    NodeRow.objects.update(machine="cpu-b")
    loop.run()
    assert phases("remeasuring") == [] and "No slot of a cpu-a machine is free" in ReasonRow.objects.get().why


def test_a_dry_run_tells_since_when_it_would_have_measured(world: World, loop: Loop, old: ProfileRecord):
    ProfileRecord.objects.filter(pk=old.pk).update(created=loop.at - timedelta(days=2))
    point = old.points.first()
    for minute in range(0, 12 * 60, 10):  # as it says for six hours, then twice the CPU
        late = minute >= 6 * 60
        ObservationRow.objects.create(
            profile=old, at=loop.at - timedelta(minutes=12 * 60 - minute), bundle="f1-0", threads=1,
            rate_per_s=point.rate_per_s * 0.9, cpu=point.cpu * (2.0 if late else 0.95), memory=None, stable=True,
            shared=False)
    [turn] = selectors.played(
        viewer_of(world.root), CONTROLLERS["remeasuring"], team="", hours=12, policy=Policy("off")).rounds
    assert turn.decision.target == str(old.pk)
    assert loop.at - timedelta(hours=4) < loop.at.fromtimestamp(turn.begun_s, loop.at.tzinfo) < loop.at


def acts_for_all(world: World) -> None:
    """Let it act for profiles that belong to no team, as one that was measured of no dataflow does."""
    set_mode(actor=world.root, controller="remeasuring", team=None, mode="acts")
