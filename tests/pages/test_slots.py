"""The page of slots: what stands where, planned and measured, before and after a plan, and for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, propose_schedule
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.models import FragmentRow, NodeRow, SlotRow
from dashboard.operations.services import register_node
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.selectors import plan_of
from dashboard.schedules.slot_details import slots_grid
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from scheduler.model.fragment import RunningBundle
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Element, Markup, assert_sound
from tests.pages.scheduling import linear, measured


def reports(**slots: dict[str, Any]) -> jobs.LiveReading:
    """A node n1 of 8 GiB that reports of these slots (``s0`` and so on)."""
    by_node = {
        name.removeprefix("s"): {"state": "running", "cpu": 0.0, "memory_mb": 0, "restarts": 0, "fragments": {}} | slot
        for name, slot in slots.items()}
    return jobs.LiveReading(reports=Reports.of({"n1": {"cores": 2, "memory_mb": 8192, "slots": by_node}}))


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what is observed."""
    def observe(reading: jobs.LiveReading) -> None:
        monkeypatch.setattr(jobs, "read_live", lambda *_: reading)

    observe(reports(s0={}, s1={}))
    return observe


def divide(fragment_id: str, *bundles: RunningBundle) -> None:
    """Let a fragment be divided, as a schedule would."""
    FragmentRow.objects.filter(pk=fragment_id).update(bundles=[
        {"id": bundle.id, "slot": bundle.slot, "threads": bundle.threads, "weight": bundle.weight}
        for bundle in bundles])


def cells(page: str) -> dict[str, Element]:
    """Each slot's cell, by its name."""
    return Markup(page).by("data-slot")


def bundles(cell: Element) -> list[tuple[str, int, float]]:
    """The tasks, threads and weight of each bundle of a cell."""
    return [(bundle.attributes["data-tasks"], int(bundle.attributes["data-threads"]),
             float(bundle.attributes["data-weight"])) for bundle in cell.having("data-bundle")]


def test_bundles_stand_on_their_slots_with_threads_and_weight(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    fragment = FragmentRow.objects.get()
    other = "n1/1" if fragment.slot == "n1/0" else "n1/0"
    divide(fragment.pk, RunningBundle(fragment.pk, fragment.slot, 3, 0.7), RunningBundle("f9-9", other, 2, 0.3))
    live(reports(s0={"cpu": 0.41, "memory_mb": 1024}, s1={"cpu": 0.2, "memory_mb": 2048}))
    response = client_of("carla").get("/estate/slots")
    assert_sound(response, "/estate/slots")
    slot_cells = cells(response.text)
    assert bundles(slot_cells[fragment.slot]) == [("sense parse average out", 3, 0.7)]
    assert bundles(slot_cells[other]) == [("sense parse average out", 2, 0.3)]
    assert (slot_cells["n1/0"].number("whole.cpu"), slot_cells["n1/0"].number("whole.memory-mb")) == (0.41, 1024)
    assert Markup(response.text).number("slots") == 2 and Markup(response.text).values("data-node") == ["n1"]


def test_what_is_measured_of_a_slot_is_of_its_bundles_as_what_is_planned(
    world: World, client_of: ClientOf, live: Any
) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    fragment = FragmentRow.objects.get()
    slot = fragment.slot.rpartition("/")[2]
    slot_report = {"state": "running", "cpu": 0.31, "memory": 0.0042}
    live(reports(**{f"s{slot}": {"cpu": 0.41, "memory_mb": 1024, "fragments": {fragment.pk: slot_report}}}))
    slot_cells = cells(client_of("carla").get("/estate/slots").text)
    cell = slot_cells[fragment.slot]
    assert [cell.number(name) for name in ("measured.cpu", "measured.memory", "whole.cpu")] == [0.31, 0.0042, 0.41]
    row = next(slot for slot in client_of("carla").get("/api/slots").json() if slot["name"] == fragment.slot)
    assert row["measured"] == {"cpu": 0.31, "memory": 0.0042}
    assert row["whole"] == {"cpu": 0.41, "memory": 0.25}  # 1024 MB of the half of 8 GiB


def test_a_slot_says_what_it_holds_to_who_hears_it(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    fragment = FragmentRow.objects.get()
    index = fragment.slot.rpartition("/")[2]
    slot_report = {"state": "running", "cpu": 0.31, "memory": 0.0042}
    live(reports(
        **{f"s{index}": {"fragments": {fragment.pk: slot_report}}, f"s{1 - int(index)}": {"state": "starting"}}))
    page = Markup(client_of("carla").get("/estate/slots").text)
    summaries = [summary for summary in page.every("summary") if "section" in summary.ancestors]
    assert not any("aria-label" in summary.attributes for summary in summaries), "it would hide the text"
    assert {summary.text for summary in summaries} == {
        f"Slot {index} of n1 1 bundle CPU 31% Memory 0.42%", f"Slot {1 - int(index)} of n1 starting CPU – Memory –"}


def test_what_is_planned_adds_up_by_slot(world: World, live: Any) -> None:
    for window in (10, 11, 12):
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana)
    grid = slots_grid(viewer_of(world.carla))
    for slot in grid.slots:
        assert slot.bundles and slot.before.cpu == pytest.approx(sum(bundle.planned.cpu for bundle in slot.bundles))
        assert slot.before == slot.after
        assert slot.before.memory is None  # nobody has said what they take


def test_a_plan_is_shown_before_and_after_it_is_enacted(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = planned(world.carla, world.city, document("cars", window=20))
    address = f"/estate/slots?proposal={proposal.pk}"
    before = client_of("carla").get(address)
    assert_sound(before, address)
    assert set(Markup(before.text).values("data-change")) == {"stays", "starts"}
    sides = slots_grid(viewer_of(world.carla), plan=plan_of(proposal.plan))
    assert sum(slot.after.cpu - slot.before.cpu for slot in sides.slots) > 0
    enacted(approved(proposal, world.ana))
    after = slots_grid(viewer_of(world.carla), plan=plan_of(proposal.plan))
    assert [(slot.name, slot.before, slot.after) for slot in after.slots] == [
        (slot.name, slot.before, slot.after) for slot in sides.slots]
    assert cells(client_of("carla").get(f"{address}&only=changed").text).keys() == {
        slot.name for slot in sides.slots if slot.changes}


def test_a_schedule_is_shown_against_the_one_before_it_when_it_runs_too(world: World, live: Any) -> None:
    measured(world)
    first = enacted(approved(planned(
        world.carla, world.city, linear(rate=20), schedule=ScheduleChoice.of(pair=("MBA", "SAM"))), world.ana))
    proposed = propose_schedule(
        actor=world.carla, dataflow_id=first.dataflow_id, choice=ScheduleChoice.of(pair=("MBA", "SAM"), rate_per_s=60))
    proposal = prepare_proposal(proposal_id=proposed.pk)
    def seen() -> list[Any]:
        grid = slots_grid(viewer_of(world.carla), plan=plan_of(proposal.plan)).slots
        return [(slot.name, slot.before, slot.after) for slot in grid]

    sides = seen()
    assert any(before.cpu and after.cpu > before.cpu for _, before, after in sides)
    executing = approved(proposal, world.ana)
    assert seen() == sides, "while it is carried out"
    enacted(executing)
    assert seen() == sides, "and when it is done"
    later = slots_grid(viewer_of(world.carla), plan=plan_of(first.plan)).slots
    assert all(slot.before.cpu is not None for slot in later), "a plan that another has followed"


def test_private_bundles_of_others_are_on_no_slot(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    for name, seen in (("carla", True), ("mo", False), ("root", True)):
        page = client_of(name).get("/estate/slots").text
        assert bool(Markup(page).having("data-bundle")) is seen
        assert ("hush" in page) is seen
        planned_cpu = sum(slot.before.cpu for slot in slots_grid(viewer_of(world.users[name])).slots)
        assert (planned_cpu > 0) is seen
    hidden = planned(world.carla, world.city, document("more", visibility="private"))
    assert client_of("mo").get(f"/estate/slots?proposal={hidden.pk}").status_code == 404
    assert client_of("carla").get(f"/estate/slots?proposal={hidden.pk}").status_code == 200


def test_a_slot_with_what_one_may_not_see_is_not_free(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    slot = FragmentRow.objects.get().slot
    for name, use, shown in (("carla", "used", 1), ("mo", "hidden", 0)):
        page = client_of(name).get("/estate/slots").text
        assert cells(page)[slot].attributes["data-use"] == use and len(bundles(cells(page)[slot])) == shown
        assert Markup(page).number("slots.free") == 1
        assert {slot["name"]: slot["free"] for slot in client_of(name).get("/api/slots").json()} == {
            "n1/0": slot != "n1/0", "n1/1": slot != "n1/1"}


def test_what_a_slot_is_reserved_for_is_said(world: World, client_of: ClientOf, live: Any) -> None:
    SlotRow.objects.filter(name="n1/1").update(reserved_for="measuring senml_parse")
    slot_cells = cells(client_of("vera").get("/estate/slots").text)
    assert slot_cells["n1/1"].attributes["data-reserved"] == "measuring senml_parse"
    assert [slot_cells[name].attributes["data-use"] for name in ("n1/0", "n1/1")] == ["free", "reserved"]


def test_an_estate_without_slots_says_how_to_get_some(world: World, client_of: ClientOf) -> None:
    register_node(name="n1", slots=0)
    response = client_of("carla").get("/estate/slots")
    assert "no-slot" in Markup(response.text).notes
    assert_sound(response, "/estate/slots")


def test_many_slots_take_as_many_statements_as_few(world: World, client_of: ClientOf, live: Any) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    counts = []
    for slots in (2, 200):
        register_node(name="n1", slots=slots)
        client.get("/estate/slots")
        with CaptureQueriesContext(connection) as queries:
            response = client.get("/estate/slots")
        counts.append(len(queries))
        assert len(cells(response.text)) == slots
    assert counts[0] == counts[1]
    assert_sound(response, "/estate/slots")


def test_a_bundle_that_moves_counts_for_what_it_was_and_for_what_it_will_be(
    world: World, client_of: ClientOf, live: Any
) -> None:
    measured(world, slots=16)
    first = planned(world.carla, world.city, linear())
    propose = reverse("schedule_propose", args=[first.dataflow_id])
    client_of("carla").post(propose, {"pair": "MBA-SAM", "rate": "90"})
    enacted(approved(prepare_proposal(proposal_id=first.pk), world.ana))
    client_of("carla").post(propose, {"pair": "MBA-SAM", "rate": "190"})
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(plan__kind="schedule").pk)
    plan, was = plan_of(proposal.plan), slots_grid(viewer_of(world.carla))
    both = slots_grid(viewer_of(world.carla), plan=plan)
    assert [slot.before for slot in both.slots] == [slot.before for slot in was.slots]
    loads = {slot: plan.promise.load_of(slot) for slot in plan.promise.slots}
    for slot in both.slots:
        if slot.name in loads:
            assert slot.after.cpu == pytest.approx(loads[slot.name].cpu)


def pinned(how: str, **slots: dict[str, Any]) -> jobs.LiveReading:
    """As `reports`, from a node that says how it holds its slots to cores."""
    reading = reports(**slots)
    return replace(reading, reports=Reports({"n1": replace(reading.reports["n1"], pinning=how)}))


def test_a_slot_says_which_core_it_is_held_to(world: World, client_of: ClientOf, live: Any) -> None:
    live(pinned("own", s0={"core": 3}, s1={"core": 2}))
    response = client_of("vera").get("/estate/slots")
    assert_sound(response, "/estate/slots")
    assert [cell.attributes["data-core"] for cell in cells(response.text).values()] == ["3", "2"]
    assert not Markup(response.text).having("data-unpinned")
    assert [(slot["core"], slot["unpinned"]) for slot in client_of("vera").get("/api/slots").json()] == [
        (3, None), (2, None)]


def test_a_node_says_what_link_joins_it_to_the_broker(world: World, client_of: ClientOf, live: Any) -> None:
    words = "2 ms each way; network namespace weir-n1, veth, delay by a relay"
    reading = reports(s0={}, s1={})
    live(reading)
    assert not Markup(client_of("vera").get("/estate/slots").text).having("data-link")
    live(replace(reading, reports=Reports({"n1": replace(reading.reports["n1"], link=words)})))
    response = client_of("vera").get("/estate/slots")
    assert_sound(response, "/estate/slots")
    assert words in response.text and Markup(response.text).having("data-link")


@pytest.mark.parametrize(("how", "core", "why"), [
    ("few_cores", None, "no more cores than slots"), ("shared", 1, "fewer cores than slots"),
    ("never", None, "WEIR_PIN is never"), ("cluster", None, "a Spark cluster"),
])
def test_slots_without_cores_of_their_own_are_said_to_be(
    world: World, client_of: ClientOf, live: Any, how: str, core: int | None, why: str
) -> None:
    live(pinned(how, s0={"core": core}, s1={"core": core}))
    page = client_of("vera").get("/estate/slots").text
    assert why in Markup(page).one("data-unpinned").attributes["data-unpinned"]
    assert cells(page)["n1/0"].attributes["data-core"] == ("none" if core is None else str(core))
    assert all(why in slot["unpinned"] for slot in client_of("vera").get("/api/slots").json())


def test_of_a_node_that_says_nothing_nothing_is_said(world: World, client_of: ClientOf, live: Any) -> None:
    page = Markup(client_of("vera").get("/estate/slots").text)
    assert page.having("data-slot") and not page.having("data-core") and not page.having("data-unpinned")


def test_a_plan_says_where_its_slots_have_no_cores_of_their_own(
    world: World, client_of: ClientOf, live: Any
) -> None:
    measured(world, slots=16)
    live(pinned("few_cores", s0={}))
    first = planned(world.carla, world.city, linear())
    assert not any("pinned to cores" in note for note in plan_of(first.plan).notes), "it has no schedule"
    client_of("carla").post(reverse("schedule_propose", args=[first.dataflow_id]), {"pair": "MBA-SAM", "rate": "90"})
    [note] = [note for note in plan_of(prepare_proposal(proposal_id=first.pk).plan).notes if "pinned to cores" in note]
    assert note.startswith("The slots of n1 are not pinned to cores of their own (it has no more cores than slots")


def test_slots_of_a_node_that_nothing_is_heard_of_are_free_nowhere(
    world: World, client_of: ClientOf, live: Any
) -> None:
    measured(world, slots=2)
    register_node(name="n0", slots=1)
    record = planned(world.carla, world.city, linear()).dataflow
    NodeRow.objects.filter(name="n1").update(seen=timezone.now())
    NodeRow.objects.filter(name="n0").update(seen=timezone.now() - 2 * SILENT_AFTER)
    client = client_of("carla")
    page = client.get("/estate/slots").text
    assert Markup(page).number("slots.free") == 2 and cells(page)["n0/0"].attributes["data-use"] == "silent"
    assert {slot["name"]: slot["free"] for slot in client.get("/api/slots").json()} == {
        "n0/0": False, "n1/0": True, "n1/1": True}
    assert Markup(client.get(reverse("schedule", args=[record.pk])).text).number("slots.free") == 2
    form = Markup(client.get(f"{reverse('measure')}?type=block_average").text)
    assert [(option.attributes["value"], option.attributes["data-use"]) for option in form.having("data-use")] == [
        ("n1/0", "free"), ("n1/1", "free"), ("n0/0", "silent")]


def test_of_many_nodes_those_that_change_are_shown_alone(world: World, client_of: ClientOf, live: Any) -> None:
    register_node(name="n2", slots=2)
    proposal = planned(world.carla, world.city, document("traffic"))
    address = f"/estate/slots?proposal={proposal.pk}"
    pages = [client_of("carla").get(query).text for query in (address, f"{address}&only=changed")]
    shown = [Markup(page).values("data-node") for page in pages]
    [changed] = {slot.rpartition("/")[0] for slot in cells(pages[1])}
    assert shown == [["n1", "n2"], [changed]]
