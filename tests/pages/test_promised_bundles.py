"""A schedule whose bundles run under other ids, or otherwise than it has them: what is read of it, and what is said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import drop_left_bundles, prepare_proposal, propose_schedule, roll_back_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.choices import ScheduleChoice
from dashboard.schedules.models import KeptOutcome, ScheduleReading
from dashboard.schedules.outcome_store import SETTLES
from dashboard.schedules.promised_bundles import promised_ids
from dashboard.schedules.slot_details import slots_grid
from dashboard.teams.permissions import viewer_of
from scheduler.model.fragment import RunningBundle
from tests.dashboard.building import World, approved, enacted, running
from tests.pages.conftest import ClientOf
from tests.pages.observed import Observed
from tests.pages.outcomes import misses_on, page_of
from tests.pages.scheduling import linear


def parts(record: DataflowRecord, task: str) -> list[RunningBundle]:
    estate = load_estate()
    return list(estate.fragments[estate.places[estate.submitted[str(record.pk)].running[task]][0]].queries)


def changed(world: World, record: DataflowRecord, *, rate: float = 90) -> Proposal:
    """Another schedule for it, approved and not enacted yet."""
    proposal = propose_schedule(
        actor=world.carla, dataflow_id=record.pk, choice=ScheduleChoice.of(pair=("MBA", "SAM"), rate_per_s=rate))
    return approved(prepare_proposal(proposal_id=proposal.pk), world.ana)


@pytest.fixture
def back(world: World, observed: Observed) -> Observed:
    """A dataflow with another schedule that was rolled back, and what began to leave by it has left."""
    change = changed(world, observed.record)
    enacted(roll_back_proposal(actor=world.ana, proposal_id=change.pk))
    drop_left_bundles(left_bundles=[part.id for task in observed.promise.rates_per_s
                            for part in parts(observed.record, task) if part.leaving])
    promised = {bundle.id for bundle in observed.promise.bundles}
    assert [part for part in parts(observed.record, "pi") if part.id not in promised], "it came back under another id"
    return observed


def test_what_was_rolled_back_keeps_its_rate_under_other_ids(client_of: ClientOf, back: Observed) -> None:
    back.keep()
    assert "keeps" in page_of(client_of, back.record).notes
    read = ScheduleReading.objects.latest("at").seen["read_per_s"]
    assert read == pytest.approx(dict(back.promise.rates_per_s))


def test_who_waits_for_what_was_rolled_back_waits_for_what_was_promised(
    client_of: ClientOf, back: Observed
) -> None:
    promised = {bundle.slot: bundle.id for bundle in back.promise.bundles if bundle.task == "pi"}
    new = next(part for part in parts(back.record, "pi") if part.id not in promised.values())
    back.keep(factor=0.5, parse={"throttled_by": f"f1-0.1@{new.id}"})
    seen = ScheduleReading.objects.latest("at").seen["bundles"]
    assert {reader for bundle in seen.values() for reader in bundle["waits_for"]} == {promised[new.slot]}
    assert "source" not in {miss.cause for miss in misses_on(page_of(client_of, back.record))}


def test_slots_plan_what_was_promised_under_other_ids(world: World, back: Observed) -> None:
    loads = {slot.name: slot.before for slot in slots_grid(viewer_of(world.carla)).slots if slot.bundles}
    assert set(loads) == set(back.promise.slots)
    for name, load in loads.items():
        assert load.cpu == pytest.approx(back.promise.load_of(name).cpu)


def test_an_id_that_was_promised_is_known_wherever_it_runs(observed: Observed) -> None:
    """A node that comes back with fewer slots leaves two bundles of one task on one."""
    one, other = [bundle for bundle in observed.promise.bundles if bundle.task == "pi"][:2]
    runs_now = {"pi": [RunningBundle(one.id, other.slot), RunningBundle(other.id, other.slot)]}
    assert promised_ids(observed.promise, runs_now) == {one.id: one.id, other.id: other.id}
    runs_now = {"pi": [RunningBundle("f9-0", other.slot), RunningBundle("f9-1", other.slot)]}
    assert promised_ids(observed.promise, runs_now) == {"f9-0": other.id}


@pytest.fixture
def sharing(world: World, observed: Observed) -> DataflowRecord:
    """Another dataflow that shares all but its output."""
    return running(world.carla, world.city, linear("other"), world.ana)


def test_nothing_is_read_of_a_schedule_that_anothers_plan_has_moved(
    world: World, client_of: ClientOf, observed: Observed, sharing: DataflowRecord
) -> None:
    observed.keep()
    change = changed(world, sharing)
    observed.keep()
    assert (ScheduleReading.objects.count(), KeptOutcome.objects.get().readings) == (0, 4), "while it is being enacted"
    enacted(change)
    observed.at += SETTLES + timedelta(minutes=1)
    observed.keep(factor=0.1)
    assert not ScheduleReading.objects.filter(proposal__dataflow=observed.record).exists()
    assert {"moved", "kept"} <= page_of(client_of, observed.record).notes
    proposal = Proposal.objects.get(dataflow=observed.record)
    outcome = client_of("carla").get(f"/api/dataflows/{observed.record.pk}/schedule/outcome").json()
    assert (outcome["status"], outcome["proposal"]) == ("moved", str(proposal.pk))
    [run] = client_of("carla").get(f"/api/dataflows/{observed.record.pk}/schedule/runs").json()
    assert (run["in_force"], run["missed"]) == (False, [])


def test_a_schedule_that_anothers_plan_moved_and_moved_back_is_read_again_when_it_has_settled(
    world: World, client_of: ClientOf, observed: Observed, sharing: DataflowRecord
) -> None:
    enacted(roll_back_proposal(actor=world.ana, proposal_id=changed(world, sharing).pk))
    finished = Proposal.objects.filter(dataflow=sharing).latest("finished_at").finished_at
    observed.at = finished + SETTLES - timedelta(seconds=5)
    Proposal.objects.filter(dataflow=observed.record).update(finished_at=finished - timedelta(hours=1))
    observed.keep(count=1)
    assert not ScheduleReading.objects.exists()
    observed.keep()
    assert "keeps" in page_of(client_of, observed.record).notes
