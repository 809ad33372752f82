"""What stays of a schedule's outcome when it is replaced, paused, removed or changed, and how much is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.urls import reverse

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    pause_dataflow,
    prepare_proposal,
    remove_dataflow,
    resume_dataflow,
    roll_back_proposal,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.plans.models import PlanRecord
from dashboard.schedules.models import KeptOutcome, ScheduleReading
from dashboard.schedules.outcome_store import SETTLES, WINDOW, record_readings
from dashboard.schedules.promises import in_force
from dashboard.schedules.schedule_status import steady_since
from tests.dashboard.building import World, approved, enacted, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from tests.pages.observed import RATE, Observed
from tests.pages.outcomes import misses_on, page_of, schedule_on
from tests.pages.scheduling import linear


def again(world: World, client_of: ClientOf, record: DataflowRecord, *, rate: int = 90) -> Proposal:
    """Another schedule for it, approved and not enacted yet."""
    client_of("carla").post(reverse("schedule_propose", args=[record.pk]), {"pair": "MBA-SAM", "rate": str(rate)})
    proposal = Proposal.objects.filter(dataflow=record, plan__kind="schedule").latest("created")
    return approved(prepare_proposal(proposal_id=proposal.pk), world.ana)


def carried_out(world: World, proposal: Proposal) -> Proposal:
    """What was asked for, approved and enacted."""
    return enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))


def outcome_over_http(client_of: ClientOf, record: DataflowRecord, proposal: Proposal) -> dict[str, Any]:
    address = f"/api/dataflows/{record.pk}/schedule/outcome"
    return client_of("carla").get(address, {"proposal": str(proposal.pk)}).json()


def test_a_schedule_that_is_replaced_keeps_its_outcome(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    record, first = observed.record, Proposal.objects.get(dataflow=observed.record)
    observed.keep(factor=0.5)
    enacted(again(world, client_of, record))
    for folded in (False, True):
        if folded:
            observed.keep(count=1)
            assert not ScheduleReading.objects.filter(proposal=first).exists()
            assert KeptOutcome.objects.get().readings == 4
        page = page_of(client_of, record, proposal=first)
        assert "replaced" in page.notes and schedule_on(page) == ("MBA-SAM", 190)
        [miss] = misses_on(page)
        assert (miss.what, miss.measured, miss.promised, miss.cause) == ("rate", 95, 190, "source")
        plots = reverse("schedule_outcome_plots", args=[record.pk])
        figure = client_of("carla").get(plots, {"proposal": str(first.pk)}).json()["rate"]
        assert figure["data"][0]["y"] == pytest.approx([95.0] * 4)
        api_outcome = outcome_over_http(client_of, record, first)
        assert (api_outcome["status"], api_outcome["readings"], api_outcome["judged"]) == ("replaced", 4, True)
        assert [(miss["what"], miss["reason"]["cause"]) for miss in api_outcome["missed"]] == [("rate", "source")]
        assert api_outcome["seen"]["rate_per_s"] == pytest.approx(RATE / 2)
    page = page_of(client_of, record)
    assert schedule_on(page) == ("MBA-SAM", 90) and "too-soon" in page.notes
    assert page.by("data-run")[str(first.pk)].attributes["data-missed"] == "rate"
    runs = client_of("carla").get(f"/api/dataflows/{record.pk}/schedule/runs").json()
    assert [(run["rate_per_s"], run["in_force"]) for run in runs] == [(90, True), (190, False)]
    assert runs[0]["missed"] is None and [miss["what"] for miss in runs[1]["missed"]] == ["rate"]
    outcome = f"{reverse('schedule_outcome', args=[record.pk])}?proposal={first.pk}"
    for address in (reverse("schedule_outcome", args=[record.pk]), reverse("proposal", args=[first.pk])):
        assert Markup(client_of("carla").get(address).text).links(outcome)


def test_a_page_that_follows_tells_of_which_schedule_it_is(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    """Where what is polled is of another one than the page, the page is made anew."""
    record, first = observed.record, Proposal.objects.get(dataflow=observed.record)

    def followed(dataflow: DataflowRecord, **query: str) -> set[str | None]:
        page = Markup(client_of("carla").get(reverse("schedule_outcome", args=[dataflow.pk]), query).text)
        return {page.one("data-poll-ms").attributes["data-of"], page.one("data-now").attributes["data-now"]}

    assert followed(record) == {str(first.pk)}
    second = enacted(again(world, client_of, record))
    assert followed(record) == {str(second.pk)} and followed(record, proposal=str(first.pk)) == {str(first.pk)}
    assert followed(running(world.carla, world.city, linear("other", rate=30), world.ana)) == {""}


def test_a_dataflow_that_is_paused_says_so_and_is_judged_anew_when_it_goes_on(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    record = observed.record
    observed.keep()
    carried_out(world, pause_dataflow(actor=world.carla, dataflow_id=record.pk))
    observed.keep(count=1)  # nothing is read of it
    page = page_of(client_of, record)
    assert {"paused", "kept"} <= page.notes and not {"too-soon", "too-soon-again"} & page.notes
    assert page.field("in-force") == "paused"
    assert (ScheduleReading.objects.count(), KeptOutcome.objects.get().readings) == (0, 4)
    carried_out(world, resume_dataflow(actor=world.carla, dataflow_id=record.pk))
    observed.keep(factor=0.5, count=2)
    [run] = client_of("carla").get(f"/api/dataflows/{record.pk}/schedule/runs").json()
    assert (run["in_force"], run["measured_until"], run["missed"]) == (True, None, None), "that is of before"
    assert {"too-soon-again", "kept"} <= page_of(client_of, record).notes
    observed.keep(factor=0.5, count=1)
    [miss] = misses_on(page_of(client_of, record))
    assert (miss.what, miss.measured, miss.promised) == ("rate", 95, 190)


def test_a_few_readings_do_not_take_the_place_of_many(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    observed.keep()
    for count in (2, 0):
        carried_out(world, pause_dataflow(actor=world.carla, dataflow_id=observed.record.pk))
        observed.keep(count=1)
        assert KeptOutcome.objects.get().readings == 4
        if count:
            carried_out(world, resume_dataflow(actor=world.carla, dataflow_id=observed.record.pk))
            observed.keep(factor=0.1, count=count)
    assert "kept" in page_of(client_of, observed.record).notes


def test_a_dataflow_that_is_removed_keeps_what_was_measured_of_it(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    record, first = observed.record, Proposal.objects.get(dataflow=observed.record)
    observed.keep(factor=0.5)
    removal = carried_out(world, remove_dataflow(actor=world.carla, dataflow_id=record.pk))
    observed.patch(jobs.LiveReading(available=False))
    record_readings(at=observed.at)
    assert KeptOutcome.objects.get().proposal_id == first.pk, "folded whether anything is measured or not"
    assert in_force([record.pk]) == {}, "so that it is judged by nothing where it comes again without a schedule"
    page = page_of(client_of, record)
    [miss] = misses_on(page)
    assert "removed" in page.notes and (miss.what, miss.measured, miss.promised) == ("rate", 95, 190)
    outcome = outcome_over_http(client_of, record, first)
    assert (outcome["status"], outcome["status_by"]) == ("removed", str(removal.pk))


def test_a_change_that_is_rolled_back_is_in_no_outcome(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    record, first = observed.record, Proposal.objects.get(dataflow=observed.record)
    observed.keep()
    change = again(world, client_of, record)
    observed.keep(factor=0.1)
    assert ScheduleReading.objects.count() == 0, "nothing is read while it is being changed"
    assert "changing" in page_of(client_of, record).notes
    enacted(roll_back_proposal(actor=world.ana, proposal_id=change.pk))
    assert "never" in page_of(client_of, record, proposal=change).notes
    assert {"too-soon-again", "kept"} <= page_of(client_of, record).notes
    observed.keep(factor=0.5)
    [miss] = misses_on(page_of(client_of, record, proposal=first))
    assert (miss.what, miss.measured, miss.promised) == ("rate", 95, 190)


def test_who_is_cut_off_while_folding_has_lost_nothing(
    world: World, client_of: ClientOf, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed.keep()
    carried_out(world, pause_dataflow(actor=world.carla, dataflow_id=observed.record.pk))
    delete = QuerySet.delete

    def cut_off(rows: QuerySet) -> Any:
        if rows.model is ScheduleReading and KeptOutcome.objects.exists():
            raise KeyboardInterrupt
        return delete(rows)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(QuerySet, "delete", cut_off)
        observed.keep(count=1)
    assert (ScheduleReading.objects.count(), KeptOutcome.objects.count()) == (4, 0)
    observed.keep(count=1)
    assert (ScheduleReading.objects.count(), KeptOutcome.objects.get().readings) == (0, 4)
    assert "kept" in page_of(client_of, observed.record).notes


def test_what_is_kept_is_bounded(observed: Observed) -> None:
    most = WINDOW // timedelta(seconds=10) + 1
    observed.keep(count=most + 5)
    assert ScheduleReading.objects.count() == most


def rows_asked_for(ask: Callable[[], object]) -> int:
    """How many rows all that is asked of the database gives."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT"):
            statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        ask()
    count = 0
    with connection.cursor() as cursor:
        for sql, params in statements:
            cursor.execute(sql, params)
            count += len(cursor.fetchall())
    return count


def test_reading_takes_as_much_after_many_plans_as_after_one(observed: Observed) -> None:
    observed.keep(count=1)
    counts = [rows_asked_for(lambda: (in_force([observed.record.pk]), steady_since([observed.record.pk])))]
    first = Proposal.objects.get(dataflow=observed.record)
    for number in range(1, 40):
        plan = PlanRecord.objects.create(dataflow=observed.record, kind="schedule", version=1)
        Proposal.objects.create(
            dataflow=observed.record, author=first.author, plan=plan, status="done",
            finished_at=first.finished_at - timedelta(days=number))
    counts.append(rows_asked_for(lambda: (in_force([observed.record.pk]), steady_since([observed.record.pk]))))
    assert counts[0] == counts[1]
    assert in_force([observed.record.pk])[str(observed.record.pk)].proposal_id == first.pk


def test_a_schedule_of_which_nothing_is_read_any_more_says_until_when_it_was(
    client_of: ClientOf, observed: Observed
) -> None:
    observed.at -= timedelta(hours=1)
    Proposal.objects.update(approved_at=observed.at - SETTLES, finished_at=observed.at - SETTLES)
    observed.keep()
    assert {"not-measured-now", "keeps"} <= page_of(client_of, observed.record).notes


def test_an_outcome_is_of_a_schedule_of_that_dataflow(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    other = running(world.carla, world.city, linear("other", rate=30), world.ana)
    address = reverse("schedule_outcome", args=[observed.record.pk])
    for named in (other.proposals.get().pk, "nonsense", "00000000-0000-4000-8000-000000000000"):
        assert client_of("carla").get(f"{address}?proposal={named}").status_code == 404
    proposal = Proposal.objects.get(dataflow=observed.record)
    assert client_of("carla").get(reverse("schedule_outcome", args=[other.pk]), {
        "proposal": str(proposal.pk)}).status_code == 404
