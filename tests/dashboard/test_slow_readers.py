"""No team slows another: what nodes are told of readers, what teams choose, and what Weir does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.demands import TeamIsFrozen, ms_of
from dashboard.approvals.services import guard, prepare_proposal, resume_dataflow, set_rules
from dashboard.approvals.services.reader_choices import choose_when_behind, set_when_behind
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.reader_terms import needs_in_part
from dashboard.operations.live_reader import live_dataflow
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import InvalidValue
from scheduler.approving import Freeze, Rules
from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.reports import Reports
from scheduler.model.behind import LOSE_OLDEST, PAUSE, SPILL, needs_in
from scheduler.model.errors import PermissionDenied
from scheduler.model.fragment import Fragment
from tests.dashboard.building import World, approved, document, enacted, running
from tests.dashboard.node_parts import load_part_of
from workers.engine.desired_publishing import desired_of


@pytest.fixture
def record(world: World) -> DataflowRecord:
    """City's dataflow, whose first two tasks Mobility's shares."""
    return running(world.carla, world.city, document("traffic"), world.ana)


@pytest.fixture
def other(world: World, record: DataflowRecord) -> DataflowRecord:
    return running(world.mo, world.mobility, document("speeds", window=9), world.ana, world.ben)


def reader() -> Fragment:
    """The query that Mobility's dataflow has to itself."""
    estate = load_estate()
    return next(fragment for fragment in estate.fragments.values() if estate.tasks[fragment.tasks[0]].parents)


def wanted() -> Mapping[str, WantedFragment]:
    """What node n1 is told, from its own part of the estate."""
    part = load_part_of("n1")
    return desired_of(part, "n1", jobs.task_types(), needs=needs_in_part(part)).wanted


def shared_input() -> Input:
    [item] = wanted()[reader().id].inputs
    return item


def observe(monkeypatch: pytest.MonkeyPatch, *, query: dict[str, Any] | None = None, **node: Any) -> None:
    """All queries run on n1, but for these changes."""
    slots: dict[str, Any] = {str(index): {"state": "running", "fragments": {}} for index in range(2)}
    for fragment in load_estate().fragments.values():
        slots[fragment.slot.rpartition("/")[2]]["fragments"][fragment.id] = {
            "state": "running", "batch": 1, **(query or {})}
    reports = Reports(Reports.of({"n1": {"at_ms": 1, "slots": slots} | node}), ages_ms={"n1": 0})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))


def spill(when_behind: str) -> dict[str, Any]:
    return {reader().id: {"channel": "f1-0.1", "mb": 2.0, "since_ms": 7, "when_behind": when_behind}}


# -- what nodes are told ---------------------------------------------------------------------------------------------


def test_a_node_hears_which_streams_others_need(world: World, record: DataflowRecord) -> None:
    """The part of the estate that its desired state is made of has no dataflows, so it heard of none."""
    assert not any(item.shared for fragment in wanted().values() for item in fragment.inputs)
    running(world.mo, world.mobility, document("speeds", window=9), world.ana, world.ben)
    item = shared_input()
    assert (item.shared, item.when_behind, item.teams) == (True, SPILL, ("mobility",))


def test_a_part_is_told_what_the_whole_estate_says(world: World, other: DataflowRecord) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=PAUSE)
    part, whole = needs_in_part(load_part_of("n1")), needs_in(load_estate(), {str(other.pk): PAUSE})
    assert part == whole and PAUSE in {need.when_behind for need in part.values()}


def test_the_choice_of_its_team_reaches_the_node_unless_another_dataflow_needs_the_reader(
    world: World, other: DataflowRecord
) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    assert shared_input().when_behind == LOSE_OLDEST
    same = running(world.mo, world.mobility, document("again", window=9), world.ana, world.ben)
    assert shared_input().when_behind == SPILL, "one of both would miss nothing"
    choose_when_behind(actor=world.ben, dataflow_id=same.pk, choice=LOSE_OLDEST)
    assert shared_input().when_behind == LOSE_OLDEST


def test_a_team_has_a_choice_for_all_and_none_that_loses_events(world: World, other: DataflowRecord) -> None:
    set_when_behind(actor=world.dev, team=world.mobility, choice=PAUSE)
    assert shared_input().when_behind == PAUSE
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=SPILL)
    assert shared_input().when_behind == SPILL
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice="")
    assert shared_input().when_behind == PAUSE
    with pytest.raises(InvalidValue):
        set_when_behind(actor=world.dev, team=world.mobility, choice=LOSE_OLDEST)
    with pytest.raises(PermissionDenied):
        set_when_behind(actor=world.ben, team=world.mobility, choice=SPILL)


def test_an_approver_chooses_and_the_trail_says_so(world: World, other: DataflowRecord, sent: list) -> None:
    with pytest.raises(PermissionDenied):
        choose_when_behind(actor=world.mo, dataflow_id=other.pk, choice=LOSE_OLDEST)
    with pytest.raises(InvalidValue):
        choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice="nothing")
    sent.clear()
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    entry = AuditEntry.objects.get(verb="dataflow.choose_when_behind")
    assert entry.details["before"] == "team" and entry.details["after"] == LOSE_OLDEST
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    assert AuditEntry.objects.filter(verb="dataflow.choose_when_behind").count() == 1


def test_a_freeze_lets_nobody_newly_choose_what_pauses_or_loses(world: World, other: DataflowRecord) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    now = ms_of(timezone.now())
    holidays = Freeze(now - 1, now + 3_600_000, "holidays")
    set_rules(actor=world.ben, team=world.mobility, rules=Rules(freezes=(holidays,)))
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)  # as it was
    for choose in (partial(choose_when_behind, actor=world.ben, dataflow_id=other.pk, choice=PAUSE),
                   partial(set_when_behind, actor=world.dev, team=world.mobility, choice=PAUSE)):
        with pytest.raises(TeamIsFrozen, match="holidays"):
            choose()
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice="")  # as its team has it: it loses nothing
    assert shared_input().when_behind == SPILL
    with pytest.raises(TeamIsFrozen):
        choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    set_rules(actor=world.ben, team=world.mobility, rules=Rules(freezes=(Freeze(now - 2, now - 1),)))
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=PAUSE)


def test_the_page_the_api_and_the_command_say_what_it_means(world: World, other: DataflowRecord, client) -> None:
    client.force_login(world.ben)
    page = client.get(f"/dataflows/{other.pk}/").content.decode()
    assert "its outputs differ from those it would have alone" in page and 'data-when-behind="spill"' in page
    client.post(f"/dataflows/{other.pk}/when-behind", {"choice": LOSE_OLDEST})
    assert 'data-when-behind="lose_oldest"' in client.get(f"/dataflows/{other.pk}/").content.decode()
    answer = client.post(
        f"/api/dataflows/{other.pk}/when-behind", {"choice": ""}, content_type="application/json").json()
    assert (answer["chosen"], answer["when_behind"]) == ("", SPILL)
    out = StringIO()
    call_command("when_behind", "speeds", PAUSE, "--as", "ben", stdout=out)
    assert "is paused" in out.getvalue()


# -- pausing, losing -------------------------------------------------------------------------------------------------


def test_what_its_team_chose_to_have_paused_is_paused_and_told_why(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=PAUSE)
    observe(monkeypatch, spills=spill(PAUSE))
    [proposal] = guard(at=timezone.now())
    assert guard(at=timezone.now()) == [], "it is proposed once"
    proposal = prepare_proposal(proposal_id=proposal.pk)
    assert (proposal.status, proposal.author, proposal.dataflow.status) == ("executing", None, "pausing")
    assert enacted(proposal).dataflow.status == "paused"
    assert DataflowRecord.objects.get(pk=record.pk).status == "running"
    finding = live_dataflow(viewer_of(world.mo), other.pk)["health"]["dataflow/speeds"]
    assert "a stream that others need" in finding["cause"] and finding["remedy"]
    assert "a stream that others need" in plan_of(proposal.plan).why
    assert AuditEntry.objects.filter(verb="dataflow.pause_slow", actor=None).count() == 1
    observe(monkeypatch)
    assert guard(at=timezone.now()) == []
    enacted(approved(prepare_proposal(proposal_id=resume_dataflow(
        actor=world.mo, dataflow_id=other.pk).pk), world.ben))
    assert "dataflow/speeds" not in live_dataflow(viewer_of(world.mo), other.pk)["health"]


def test_a_reader_with_another_choice_is_not_paused(
    world: World, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=PAUSE)
    for choice in (SPILL, LOSE_OLDEST):
        observe(monkeypatch, spills=spill(choice))
        assert guard(at=timezone.now()) == []


def test_what_is_lost_is_counted_and_told(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=LOSE_OLDEST)
    loss = {"reader": reader().id, "channel": "f1-0.1", "blocks": 3, "events": 60}
    for more in (0, 40, 40):
        observe(monkeypatch, spills=spill(LOSE_OLDEST), losses=[{**loss, "events": loss["events"] + more}])
        guard(at=timezone.now())
    live = live_dataflow(viewer_of(world.mo), other.pk)
    assert (live["lost_events"], live["when_behind"]) == (100, LOSE_OLDEST)
    assert live_dataflow(viewer_of(world.carla), record.pk)["lost_events"] == 0
    assert AuditEntry.objects.filter(verb="dataflow.lose_events").count() == 1
    finding = live["health"][f"spill/{reader().id}"]
    assert "loses the oldest events" in finding["cause"]


# -- what can only fail again -----------------------------------------------------------------------------------------


def chain_of(record: DataflowRecord) -> Fragment:
    """The query of all four tasks, whose first two another dataflow needs, too."""
    return next(fragment for fragment in load_estate().fragments.values() if len(fragment.tasks) == 4)


def gives_up(monkeypatch: pytest.MonkeyPatch, fragment: Fragment, failed: tuple[str, ...], **node: Any) -> None:
    """All run but this query, which was given up with an error in these tasks."""
    query = {"state": "backoff", "failures": 9, "gave_up": True, "error": "no number", "failed_tasks": list(failed)}
    slots = {str(index): {"state": "running", "fragments": {}} for index in range(2)}
    for other in load_estate().fragments.values():
        slots[other.slot.rpartition("/")[2]]["fragments"][other.id] = (
            query if other.id == fragment.id else {"state": "running", "batch": 1})
    reports = Reports(Reports.of({"n1": {"at_ms": 1, "slots": slots} | node}), ages_ms={"n1": 0})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))


def test_a_task_that_only_fails_rests_and_the_others_of_its_query_go_on(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, again = chain_of(record), []
    monkeypatch.setattr(jobs, "try_again", lambda queries: again.extend(queries))
    gives_up(monkeypatch, chain, chain.tasks[2:3])
    [proposal] = guard(at=timezone.now())
    assert guard(at=timezone.now()) == [] and again == []
    proposal = enacted(prepare_proposal(proposal_id=proposal.pk))
    assert proposal.dataflow_id == record.pk and proposal.dataflow.status == "paused"
    assert DataflowRecord.objects.get(pk=other.pk).status == "running"
    assert AuditEntry.objects.filter(verb="dataflow.pause_failing", actor=None).count() == 1
    finding = live_dataflow(viewer_of(world.carla), record.pk)["health"]["dataflow/traffic"]
    assert finding["state"] == "paused_failed" and "package" in finding["remedy"]
    gives_up(monkeypatch, chain_of(record), chain.tasks[2:3])
    assert guard(at=timezone.now()) == [] and again == [chain.id], "without the failed task it may work"


def test_what_fails_for_all_who_need_it_is_left_to_them(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(record)
    for failed in ((), chain.tasks[:1]):
        gives_up(monkeypatch, chain, failed)
        assert guard(at=timezone.now()) == []
    gives_up(monkeypatch, reader(), reader().tasks[:1])
    assert guard(at=timezone.now()) == [], "it holds nobody back"


def test_a_reader_that_was_given_up_holds_its_writer_back_until_there_is_no_room_on_disk(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    spills = spill(SPILL)
    gives_up(monkeypatch, reader(), reader().tasks[:1], spills=spills)
    assert guard(at=timezone.now()) == [], "it goes on from disk when it is mended"
    full = {name: {**report, "refused": "team_full"} for name, report in spills.items()}
    gives_up(monkeypatch, reader(), reader().tasks[:1], spills=full)
    [proposal] = guard(at=timezone.now())
    assert enacted(prepare_proposal(proposal_id=proposal.pk)).dataflow_id == other.pk
    assert DataflowRecord.objects.get(pk=record.pk).status == "running"
