"""Policies of dynamic tasks: proposed, reviewed by all who share the task, versioned, taken back; what they may name;
holds; calendars and posted events."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import EXECUTING
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft, trial_of
from dashboard.approvals.services import (
    prepare_proposal,
    propose_policy,
    roll_back_proposal,
    switch_alternate,
)
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import AlternateHold, PolicyVersion, PostedEvent
from dashboard.operations.policies import guard_dry_runs
from dashboard.operations.policies.guard_watches import GuardWatches
from dashboard.operations.policies.policy_reader import policy_told
from dashboard.operations.policies.posted_events import post_event
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import delete_calendar, set_calendar
from scheduler.guards.guard_values import InvalidGuard
from scheduler.guards.task_figures import subject_of
from scheduler.history.series import DATAFLOW, Series
from scheduler.model.errors import InvalidDataflow, InvalidTransition, NotFound
from tests.cases import each
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.dashboard.policies import FAST, NOW_S, in_force, posted, proposed, rates, switched, wanted

pytestmark = pytest.mark.django_db
@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, switched("air"), world.ana)


# -- versions ----------------------------------------------------------------------------------------------------------


def test_a_policy_is_proposed_approved_versioned_and_taken_back(world: World, record: DataflowRecord) -> None:
    before, viewer = load_estate(), viewer_of(world.carla)
    proposal = proposed(world, record, reason="too slow at noon")
    assert (proposal.plan.kind, proposal.status) == ("set", "pending")
    assert policy_told(viewer, record.pk, "work").number == 0
    enacted(approved(proposal, world.ana))
    policy = policy_told(viewer, record.pk, "work")
    assert (policy.number, policy.policy.kind, dict(policy.policy.guards)) == (1, "activation", FAST.guards)
    assert [(version.number, version.author, version.reason) for version in policy.versions] == [
        (1, "carla", "too slow at noon"), (0, "", "")]
    after = load_estate()
    assert (before.tasks, before.fragments) == (after.tasks, after.fragments), "no query was touched"
    assert record.versions.count() == 1, "nor is there another version of the document"
    enacted(roll_back_proposal(actor=world.ana, proposal_id=proposal.pk))
    policy = policy_told(viewer, record.pk, "work")
    assert (policy.number, policy.policy.kind) == (2, "value") and load_estate().settings == {}
    in_force(world, record, None, version=1)
    assert policy_told(viewer, record.pk, "work").policy.kind == "activation"
    assert PolicyVersion.objects.count() == 3
    assert AuditEntry.objects.filter(verb="dataflow.propose_set", actor=world.carla).count() == 2


def test_the_policy_that_is_in_force_is_no_proposal(world: World, record: DataflowRecord) -> None:
    assert proposed(world, record, PolicyDraft()).status == "unplannable"
    in_force(world, record)
    assert "by that policy already" in str(proposed(world, record).plan.error)
    with pytest.raises(NotFound, match="no version 7"):
        proposed(world, record, None, version=7)


def test_a_guard_that_reviewers_would_read_in_another_order_is_refused(world: World, record: DataflowRecord) -> None:
    with pytest.raises(InvalidGuard, match="direction"):
        proposed(world, record, PolicyDraft({"few": "rate > 5 /* \u202e */"}))


def test_a_policy_of_a_shared_task_is_reviewed_by_all_who_share_it(world: World, record: DataflowRecord) -> None:
    running(world.mo, world.mobility, switched("roads"), world.ben, world.ana)
    proposal = proposed(world, record)
    assert plan_of(proposal.plan).touched_teams == ("mobility",)
    assert {ask.team.slug for ask in proposal.plan.asks.select_related("team")} == {"city", "mobility"}


def test_undoing_waits_for_no_other_policy(world: World, record: DataflowRecord) -> None:
    first = in_force(world, record)
    in_force(world, record, PolicyDraft({"few": "rate > 5"}))
    with pytest.raises(InvalidTransition, match="another policy since"):
        roll_back_proposal(actor=world.ana, proposal_id=first.pk)


def test_a_policy_and_a_switch_of_one_task_do_not_undo_each_other(world: World, record: DataflowRecord) -> None:
    proposal = proposed(world, record)
    enacted(approved(prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few").pk), world.ana))
    enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))
    [settings] = load_estate().settings.values()
    assert list(settings.alternates.values()) == ["few"] and len(settings.policies) == 1


def test_a_rule_switches_while_a_policy_waits_for_its_reviewers(world: World, record: DataflowRecord) -> None:
    in_force(world, record)
    proposed(world, record, PolicyDraft({"few": "rate > 5"}))
    watches = GuardWatches()
    watches.look(load_estate(), rates(20.0), NOW_S)
    switches = watches.look(load_estate(), rates(200.0), NOW_S + 1)
    [proposal] = propose_switches(switches, load_estate(), at=timezone.now())
    assert prepare_proposal(proposal_id=proposal.pk).status == EXECUTING


# -- what decides ------------------------------------------------------------------------------------------------------


def test_exactly_one_activation_guard_is_on_and_trouble_is_told(world: World, record: DataflowRecord) -> None:
    in_force(world, record, PolicyDraft({"all": "rate < 50", "few": "rate >= 40"}, kind="activation"))
    watches = GuardWatches()
    assert wanted(watches, second=0) == []
    assert wanted(watches, second=1, per_s=60.0) == ["few"]
    assert wanted(watches, second=2, per_s=45.0) == [], "both are true: the one that was on is kept"
    watches.store()
    policy = policy_told(viewer_of(world.carla), record.pk, "work")
    assert policy.trouble == "both_on" and [guard.allowed for guard in policy.guards] == [True, True]
    assert [finding.what for finding in policy.findings] == ["both_on"]


def test_value_functions_choose_and_those_that_are_not_known_are_told(world: World, record: DataflowRecord) -> None:
    in_force(world, record, PolicyDraft(values={"all": "1 / (rate - 20)", "few": "0.5"}))
    watches = GuardWatches()
    assert wanted(watches, second=0) == ["few"], "a division by zero is NULL, and comes after any number"
    watches.store()
    policy = policy_told(viewer_of(world.carla), record.pk, "work")
    assert {guard.name: guard.worth for guard in policy.guards} == {"all": None, "few": 0.5}
    assert wanted(watches, second=1, per_s=21.0) == []


def test_another_policy_keeps_the_windows_that_it_has_in_common(world: World, record: DataflowRecord) -> None:
    in_force(world, record, PolicyDraft({"all": "for_at_least(rate > 10, '1 h')"}))
    watches = GuardWatches()
    wanted(watches, second=0), wanted(watches, second=3_000)
    in_force(world, record, PolicyDraft({"few": "for_at_least(rate > 10, '1 h')"}, {"few": 9}))
    assert wanted(watches, second=3_001) == [] and wanted(watches, second=3_600) == ["few"]


def test_a_recorder_that_is_killed_goes_on_by_the_policy(world: World, record: DataflowRecord) -> None:
    posted(world)
    in_force(world, record, PolicyDraft({"few": "count(events.alarm, '1 h') > 2"}, {"few": 9}))
    first = GuardWatches()
    assert wanted(first, second=0) == []
    posted(world)
    assert wanted(first, second=1) == []
    first.store()
    posted(world)
    assert wanted(GuardWatches(), second=2) == ["few"], "each event counts once, also over a kill"


def test_figures_of_other_tasks_and_of_the_dataflow(world: World, record: DataflowRecord) -> None:
    in_force(world, record, PolicyDraft(
        {"few": "parse.rate > 100 OR dataflow.limits_missed > 0 OR dataflow.price_per_h > 5"}, {"few": 9}))
    estate = load_estate()
    parse = subject_of(estate, estate.submitted[str(record.pk)].running["parse"])
    [reached] = parse.series("rate")
    cpu = Series(DATAFLOW, str(record.pk), "cpu")
    watches, figures = GuardWatches(), {reached: 5.0, cpu: 0.1}
    missed = Series(DATAFLOW, str(record.pk), "limits_missed")
    assert wanted(watches, second=0, more=figures | {missed: 0.0}) == []
    assert wanted(watches, second=1, more=figures | {reached: 200.0}) == ["few"]
    assert wanted(watches, second=2, more=figures) == []
    assert wanted(watches, second=3, more=figures | {missed: 1.0}) == ["few"]
    assert wanted(watches, second=4, more=figures | {missed: 0.0}) == []
    assert wanted(watches, second=5, more=figures | {cpu: 1000.0}) == ["few"]


def test_figures_of_another_dataflow_are_read_where_it_is_shared(world: World, record: DataflowRecord) -> None:
    roads = running(world.mo, world.mobility, document("roads", window=9), world.ben, world.ana)
    in_force(world, record, PolicyDraft({"few": "roads.average.rate > 100"}, {"few": 9}))
    estate = load_estate()
    [line] = subject_of(estate, estate.submitted[str(roads.pk)].running["average"]).series("rate")
    watches = GuardWatches()
    assert [wanted(watches, second=second, more={line: rate}) for second, rate in enumerate((5.0, 200.0, 5.0))] == [
        [], ["few"], []]


def test_columns_of_named_outputs_are_figures(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any]] = [{"_born": NOW_S * 1000 - 9, "_seq": 1, "value": 5.0, "made": "all"}]
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents(events=list(reversed(events))))
    in_force(world, record, PolicyDraft({"few": "max(out.value, '1 h') > 50 AND out.made = 'all'"}, {"few": 9}))
    watches = GuardWatches()
    assert wanted(watches, second=0) == []
    events.append({"_born": NOW_S * 1000 + 500, "_seq": 2, "value": 60.0, "made": "all"})
    assert wanted(watches, second=1) == ["few"] == wanted(watches, second=2)
    events.append({"_born": NOW_S * 1000 + 2500, "_seq": 3, "value": 1.0, "made": "few"})
    assert wanted(watches, second=3) == []


def test_posted_events_and_calendars_decide_and_a_changed_calendar_counts_at_once(
    world: World, record: DataflowRecord
) -> None:
    today = datetime.fromtimestamp(NOW_S, UTC).date()
    set_calendar(actor=world.ana, team=world.city, name="holidays", days=[date(2020, 1, 1)])
    post_event(actor=world.carla, team=world.city, stream="alert", values={"level": "green"})
    in_force(world, record, PolicyDraft(
        {"few": "events.alert.level = 'red' OR days('holidays', 'UTC')"}, {"few": 9}))
    watches = GuardWatches()
    assert wanted(watches, second=0) == []
    post_event(actor=world.carla, team=world.city, stream="alert", values={"level": "red"})
    assert wanted(watches, second=1) == ["few"]
    post_event(actor=world.carla, team=world.city, stream="alert", values={"level": None})
    assert wanted(watches, second=2) == []
    set_calendar(actor=world.ana, team=world.city, name="holidays", days=[today])
    assert wanted(watches, second=3) == ["few"]
    delete_calendar(actor=world.ana, team=world.city, name="holidays")
    assert wanted(watches, second=4) == []
    policy = policy_told(viewer_of(world.carla), record.pk, "work")
    assert policy.trouble == "not_read" and "holidays" in policy.because


@each("draft, message", [
    (PolicyDraft({"few": "hush.parse.rate > 5"}), "no figure hush.parse.rate"),
    (PolicyDraft({"few": "count(hush.parse, '5 min') > 5"}), "no figure hush.parse"),
    (PolicyDraft({"few": "mobility.hush.parse.rate > 5"}), "no figure mobility.hush.parse.rate"),
    (PolicyDraft({"few": "nowhere.parse.rate > 5"}), "no figure nowhere.parse.rate"),
    (PolicyDraft({"few": "events.alrt.level = 'red'"}), "no figure events.alrt.level"),
    (PolicyDraft({"few": "days('holidays', 'UTC')"}), "no calendar"),
    (PolicyDraft({"few": "prse.rate > 5"}), "no figure prse.rate"),
    (PolicyDraft({"few": "rate > 5 AND rate < 4"}), "never on"),
    (PolicyDraft({"fwe": "rate > 5"}), "no alternate fwe"),
    (PolicyDraft({"few": "rate"}), "a guard is a condition"),
    (PolicyDraft(values={"few": "rate > 5"}), "a value function gives a number"),
    (PolicyDraft(values={"few": -1.0}), "is no value"),
    (PolicyDraft(values={"few": float("nan")}), "is no value"),
    (PolicyDraft(values={"few": "1 - mean(rate, '1 hour')"}), "no duration"),
    (PolicyDraft(kind="activation"), "have no guard"),
    (PolicyDraft(kind="both"), "of the kind"),
    (PolicyDraft(source="oracle"), "no policy source oracle"),
])
def test_a_policy_that_cannot_be_one_is_refused_with_place_and_remedy(
    world: World, record: DataflowRecord, draft: PolicyDraft, message: str
) -> None:
    running(world.mo, world.mobility, document("hush", visibility="private", window=11), world.ben)
    with pytest.raises((InvalidGuard, NotFound)) as refused:
        propose_policy(actor=world.carla, dataflow_id=record.pk, task="work", draft=draft)
    assert message in refused.value.message and refused.value.remedy
    if "figure" in message:
        assert "line 1, column" in refused.value.message
    assert not Proposal.objects.filter(plan__kind="set").exists()


def test_a_shared_task_names_nothing_that_one_team_keeps_private(world: World, record: DataflowRecord) -> None:
    running(world.carla, world.city, document("own", visibility="private", window=13), world.ana)
    with pytest.raises(InvalidGuard, match=r"no figure own\.parse\.rate"):
        proposed(world, record, PolicyDraft({"few": "own.parse.rate > 5"}))
    private = running(world.carla, world.city, switched("mine", visibility="private"), world.ana)
    assert proposed(world, private, PolicyDraft({"few": "own.parse.rate > 5"})).status == "pending"


def test_a_document_says_of_which_kind_its_guards_are(world: World) -> None:
    record = running(world.carla, world.city, switched("air", guard="rate > 50", kind="activation"), world.ana)
    watches = GuardWatches()
    assert wanted(watches, second=0) == ["few"] and wanted(watches, second=1, per_s=60.0) == []
    assert policy_told(viewer_of(world.carla), record.pk, "work").policy.kind == "activation"


def test_a_document_may_have_value_functions(world: World) -> None:
    record = running(world.carla, world.city, switched("air", value="rate / 100"), world.ana)
    watches = GuardWatches()
    assert policy_told(viewer_of(world.carla), record.pk, "work").on == "few", "what is not known comes last at first"
    assert wanted(watches, second=0) == [] and wanted(watches, second=1, per_s=200.0) == ["all"]


@pytest.mark.parametrize(("change", "code"), [
    ({"kind": "either"}, "not_a_choice"), ({"value": ""}, "invalid_config"), ({"value": "rte / 5"}, "invalid_config"),
    ({"value": "rate > 5"}, "invalid_config"), ({"kind": "activation"}, "invalid_config"),
    ({"value": 0}, "not_positive"), ({"value": []}, "ill_typed")])
def test_what_a_document_cannot_say_of_guards_is_refused(world: World, change: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, switched("air", **change))
    assert code in {problem.code for problem in refused.value.problems}


# -- API, page, command ------------------------------------------------------------------------------------------------


def test_api_page_and_command_tell_and_propose(world: World, record: DataflowRecord, client: Client) -> None:
    client.force_login(world.carla)
    address = f"/api/dataflows/{record.pk}/alternates/work"
    answer = client.post(f"{address}/policy", {"guards": {"few": "rate > 5"}, "values": {"few": "rate / 2"}},
                         content_type="application/json")
    assert answer.status_code == 200, answer.content
    enacted(approved(prepare_proposal(proposal_id=answer.json()["id"]), world.ana))
    watches = GuardWatches()
    wanted(watches, second=0)
    watches.store()
    policy = client.get(f"{address}/policy").json()
    assert policy["number"] == 1 and policy["policy"]["guards"] == {"few": "rate > 5"}
    assert [(guard["name"], guard["allowed"], guard["worth"]) for guard in policy["guards"]] == [
        ("all", None, 1.0), ("few", True, 10.0)]
    wrong = client.post(f"{address}/policy", {"guards": {"few": "rte > 5"}}, content_type="application/json")
    assert wrong.status_code == 422 and "Did you mean rate?" in wrong.json()["remedy"]
    page = client.get(f"/dataflows/{record.pk}/dynamic").content.decode()
    assert "<ins>rate &gt; 5</ins>" in page and "<ins>rate / 2</ins>" in page and "in force" in page
    again = client.post(reverse("propose_policy", args=[record.pk, "work"]), {"version": "0"})
    assert again.status_code == 302 and "/proposals/" in again["Location"]
    held = client.post(reverse("hold_alternate", args=[record.pk, "work"]), {"alternate": "all", "hold_s": "900"})
    assert "/proposals/" in held["Location"]
    assert Proposal.objects.filter(plan__options__hold_s=900).count() == 1
    AlternateHold.objects.create(
        task=policy["running"], alternate="all", by=world.carla, until=timezone.now() + timedelta(hours=1))
    assert client.get(f"{address}/policy").json()["held"] == "all"
    assert client.post(f"{address}/release").json()["held"] == ""
    out = StringIO()
    call_command("policy", str(record.pk), "work", stdout=out)
    assert "version 1" in out.getvalue() and "few: while rate > 5, worth rate / 2" in out.getvalue()
    call_command(
        "policy", str(record.pk), "work", "--guard", "few=rate > 7", "--why", "less", username="carla", stdout=out)
    assert Proposal.objects.filter(plan__options__reason="less").exists()
    call_command("switch", str(record.pk), "work", "few", "--hold", "2 h", username="carla", stdout=out)
    assert Proposal.objects.filter(plan__options__hold_s=7200).exists()


def test_a_policy_that_goes_to_and_fro_is_told_what_helps(world: World, record: DataflowRecord) -> None:
    in_force(world, record)
    watches = GuardWatches()
    for second in range(30):
        watches.look(load_estate(), rates(200.0 if second % 2 else 20.0), NOW_S + second)
    watches.store()
    advice = policy_told(viewer_of(world.carla), record.pk, "work").advice
    assert "more than 12 times an hour" in advice and "for_at_least" in advice


def test_a_dry_run_plays_other_tasks_and_posted_events(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    estate, history = load_estate(), DatabaseHistory()
    now = timezone.now()
    end_s = int(now.timestamp()) // 60 * 60
    [reached] = subject_of(estate, estate.submitted[str(record.pk)].running["parse"]).series("rate")
    for second in range(end_s - 600, end_s, 10):
        history.append(second, rates(20.0) | {reached: 300.0 if end_s - 480 <= second < end_s - 300 else 5.0})
    history.flush()
    history.tidy(end_s)
    alert = posted(world)
    PostedEvent.objects.filter(pk=alert.pk).update(at_ms=(end_s - 100) * 1000)
    monkeypatch.setattr(guard_dry_runs, "timezone", SimpleNamespace(now=lambda: datetime.fromtimestamp(end_s, UTC)))
    draft = PolicyDraft({"few": "parse.rate > 100 OR count(events.alarm, '1 min') > 0"}, {"few": 9})
    trial = trial_of(viewer_of(world.carla), record.pk, "work", hours=1, draft=draft)
    assert [(switch.before, switch.alternate) for switch in trial.switches] == [
        ("all", "few"), ("few", "all"), ("all", "few"), ("few", "all")]
    assert trial.switches[2].at_ms == (end_s - 100) * 1000
    out = StringIO()
    call_command("policy", str(record.pk), "work", "--guard", f"few={draft.guards['few']}", "--value", "few=9",
                 "--dry-run", "1", username="carla", stdout=out)
    assert out.getvalue().strip() == trial.text
    with pytest.raises(CommandError, match="over 1 to 168 hours"):
        call_command("policy", str(record.pk), "work", "--dry-run", "169", username="carla", stdout=out)
    assert not Proposal.objects.filter(plan__kind="set").exists()
