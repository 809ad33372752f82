"""Guards at work: what is measured each second makes Weir switch alternates, and another process goes on with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from django.utils import timezone
from structlog.testing import capture_logs

from dashboard import jobs
from dashboard.approvals.lifecycle import EXECUTING
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft, trial_of
from dashboard.approvals.services import pause_dataflow, prepare_proposal, switch_alternate
from dashboard.approvals.services.alternate_holds import HELD_FOR
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import GuardState
from dashboard.operations.policies import guard_dry_runs, guard_watches
from dashboard.operations.policies.guard_watches import GuardWatches
from dashboard.operations.policies.policy_reader import hold_of, running_element, users_of
from dashboard.operations.policies.task_failures import AGAIN_S, TaskFailures
from dashboard.operations.policies.team_turns import TeamTurns
from dashboard.plans.models import PlanRecord
from dashboard.teams.permissions import viewer_of
from dashboard.teams.team_limits import AskedTooOften
from scheduler.guards.guard_values import InvalidGuard
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.guards.task_figures import subject_of
from scheduler.history.series import Series
from scheduler.model.errors import InvalidDataflow, NotFound
from tests.dashboard.building import World, approved, document, enacted, planned, running

pytestmark = pytest.mark.django_db
NOW_S = 1_800_000_000
MANY = "for_at_least(rate > 100, '10 s')"


def guarded(name: str, guard: str = "") -> str:
    """A chain whose third task does all where few events come, else some."""
    whole = json.loads(document(name))
    whole["tasks"][2] = {"id": "work", "alternates": [
        {"name": "all", "type": "sql", "config": {"query": "SELECT *, 'all' AS made FROM input"}, "value": 2,
         "guard": guard or f"NOT {MANY}"},
        {"name": "few", "type": "sql", "config": {"query": "SELECT *, 'few' AS made FROM input WHERE value > 20"}}]}
    whole["streams"] = [
        {key: {"average": "work"}.get(end, end) for key, end in stream.items()} for stream in whole["streams"]]
    return json.dumps(whole)


def rates(per_s: float) -> dict[Series, float]:
    """What is measured of the dynamic task: events that reach it."""
    estate = load_estate()
    [task] = [task.id for task in estate.tasks.values() if task.type == "dynamic"]
    [line] = subject_of(estate, task).series("rate")
    return {line: per_s}


def looked(watches: GuardWatches, per_s: float, *, second: int) -> list[str]:
    return [switch.alternate for switch in watches.look(load_estate(), rates(per_s), NOW_S + second)]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(NOW_S + second, UTC)


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, guarded("air"), world.ana)


def test_a_guard_that_holds_for_long_enough_switches(record: DataflowRecord) -> None:
    watches = GuardWatches()
    assert [looked(watches, 200.0, second=second) for second in (0, 5, 9, 10, 11)] == [[], [], [], ["few"], ["few"]]
    assert looked(watches, 20.0, second=12) == []


def test_a_hole_in_what_is_measured_switches_nothing(world: World) -> None:
    running(world.carla, world.city, guarded("air", "rate < 100"), world.ana)
    watches, estate = GuardWatches(), load_estate()
    [line] = rates(1.0)
    other = Series("task", line.subject.partition(">")[2], "rate_per_s")
    assert looked(watches, 20.0, second=0) == []
    assert [watches.look(estate, {other: 5.0}, NOW_S + second) for second in (1, 20, 29)] == [[], [], []]
    assert [switch.alternate for switch in watches.look(estate, {other: 5.0}, NOW_S + 31)] == ["few"]


def test_guards_wait_for_their_figures_at_the_start(world: World) -> None:
    running(world.carla, world.city, guarded("air", "rate < 100"), world.ana)
    watches, estate = GuardWatches(), load_estate()
    [line] = rates(1.0)
    other = Series("task", line.subject.partition(">")[2], "rate_per_s")
    assert [watches.look(estate, {other: 5.0}, NOW_S + second) for second in (0, 29)] == [[], []]
    assert looked(watches, 20.0, second=29) == []
    late = GuardWatches()
    assert late.look(estate, {other: 5.0}, NOW_S) == []
    assert [switch.alternate for switch in late.look(estate, {other: 5.0}, NOW_S + 30)] == ["few"]


def test_nothing_is_wanted_where_nothing_is_measured(record: DataflowRecord) -> None:
    assert GuardWatches().look(load_estate(), {}, NOW_S) == []


def test_another_process_goes_on(record: DataflowRecord) -> None:
    first = GuardWatches()
    assert looked(first, 200.0, second=0) == looked(first, 200.0, second=6) == []
    first.store()
    assert looked(GuardWatches(), 200.0, second=10) == ["few"]


def test_a_switch_is_proposed_once_asks_nobody_and_is_kept(world: World, record: DataflowRecord) -> None:
    watches, estate = GuardWatches(), load_estate()
    looked(watches, 200.0, second=0)
    wanted = watches.look(estate, rates(200.0), NOW_S + 10)
    [proposal] = propose_switches(wanted, estate, at=at(10))
    assert propose_switches(wanted, estate, at=at(11)) == []
    prepared = prepare_proposal(proposal_id=proposal.pk)
    assert prepared.status == EXECUTING and prepared.author is None
    assert "rate = 200" in prepared.plan.options["reason"]
    enacted(prepared)
    [settings] = load_estate().settings.values()
    assert list(settings.alternates.values()) == ["few"]
    assert looked(watches, 200.0, second=40) == [] and looked(watches, 20.0, second=41) == ["all"]
    watches.store()
    [state] = GuardState.objects.all()
    assert state.readings["rate"] == 20.0 and state.because


def test_who_switches_by_hand_is_left_alone_for_an_hour(world: World, record: DataflowRecord) -> None:
    enacted(approved(prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few").pk), world.ana))
    done = Proposal.objects.get(plan__kind="set").finished_at
    estate = load_estate()
    wanted = GuardWatches().look(estate, rates(20.0), NOW_S)
    assert [switch.alternate for switch in wanted] == ["all"]
    names = users_of(estate, wanted[0].task)
    assert names == [(str(record.pk), "work")]
    assert hold_of(wanted[0].task, at=done).until == done + HELD_FOR
    assert propose_switches(wanted, estate, at=done + HELD_FOR - timedelta(seconds=1)) == []
    assert len(propose_switches(wanted, estate, at=done + HELD_FOR + timedelta(seconds=1))) == 1


def test_a_task_whose_guards_fail_takes_no_other_with_it(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(world.carla, world.city, guarded("other", "rate < 100"), world.ana)
    estate, values = load_estate(), {}
    tasks = sorted(task.id for task in estate.tasks.values() if task.type == "dynamic")
    for task in tasks:
        [line] = subject_of(estate, task).series("rate")
        values[line] = 200.0
    begin, failing = guard_watches.ElementWatch, []

    class Failing(begin):
        def take(self, event, at_ms):
            if self.compiled.element.name == failing[0]:
                raise OverflowError("int too large")
            return super().take(event, at_ms)

    monkeypatch.setattr(guard_watches, "ElementWatch", Failing)
    for failing[:] in ([task] for task in tasks):
        watches = GuardWatches()
        wanted = [switch.task for second in range(12) for switch in watches.look(estate, values, NOW_S + second)]
        assert set(wanted) == set(tasks) - set(failing)
        watches.store()


def test_a_team_whose_guards_take_all_time_takes_no_other_teams(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(world.mo, world.mobility, guarded("other", "rate < 100"), world.ben, world.ana)
    estate, values, spent = load_estate(), {}, [0.0]
    for task in (task.id for task in estate.tasks.values() if task.type == "dynamic"):
        [line] = subject_of(estate, task).series("rate")
        values[line] = 20.0
    [hostile] = [running for running in estate.submitted[str(record.pk)].running.values() if running in {
        task.id for task in estate.tasks.values() if task.type == "dynamic"}]
    begin, looked_at = guard_watches.ElementWatch, []

    class Slow(begin):
        def take(self, event, at_ms):
            looked_at.append(self.compiled.element.name)
            spent[0] += 60.0 if self.compiled.element.name == hostile else 0.0
            return super().take(event, at_ms)

    monkeypatch.setattr(guard_watches, "ElementWatch", Slow)
    monkeypatch.setattr(guard_watches, "TeamTurns", lambda: TeamTurns(lambda: spent[0]))
    watches = GuardWatches()
    for second in range(20):
        watches.look(estate, values, NOW_S + second)
    assert looked_at.count(hostile) == 1 and len(looked_at) == 21


def test_guards_may_ask_for_as_many_plans_as_people_and_neither_takes_the_others(
    world: World, record: DataflowRecord, settings
) -> None:
    running(world.carla, world.city, guarded("other", "rate < 100"), world.ana)
    estate = load_estate()
    by_people = PlanRecord.objects.count()
    settings.TEAM_PLANS_PER_H = by_people
    tasks = [task.id for task in estate.tasks.values() if task.type == "dynamic"]
    wanted = [WantedSwitch(task, "few", "rate = 200") for task in tasks]
    assert len(propose_switches(wanted, estate, at=timezone.now())) == 2, "plans of people do not count"
    with pytest.raises(AskedTooOften):
        pause_dataflow(actor=world.carla, dataflow_id=record.pk)
    Proposal.objects.filter(plan__kind="set").delete()
    settings.TEAM_PLANS_PER_H = by_people + 1
    pause_dataflow(actor=world.carla, dataflow_id=record.pk)
    settings.TEAM_PLANS_PER_H = PlanRecord.objects.filter(options__has_key="source").count()
    assert propose_switches(wanted, estate, at=timezone.now()) == [], "a guard that goes to and fro is told to wait"


@pytest.mark.parametrize("guard,message", [
    ("rte > 5", "Did you mean rate?"), ("rate >", "cannot be read"), ("rate > 5 AND rate < 4", "never on")])
def test_a_guard_that_is_none_is_refused_with_its_place(world: World, guard: str, message: str) -> None:
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, guarded("air", guard))
    [problem] = refused.value.problems
    assert message in f"{problem.message} {problem.remedy}" and problem.line == 1


@pytest.fixture
def ten_minutes_of_rates(record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes of history up to now, of which three had many events."""
    now_s = NOW_S - NOW_S % 60
    monkeypatch.setattr(guard_dry_runs, "timezone", SimpleNamespace(now=lambda: datetime.fromtimestamp(now_s, UTC)))
    [line], history = rates(0.0), DatabaseHistory()
    for second in range(now_s - 600, now_s, 10):
        history.append(second, {line: 200.0 if now_s - 480 <= second < now_s - 300 else 20.0})
    history.flush()
    history.tidy(now_s)


@pytest.mark.usefixtures("ten_minutes_of_rates")
def test_a_dry_run_says_when_it_would_have_switched_and_why(world: World, record: DataflowRecord) -> None:
    viewer = viewer_of(world.carla)
    tried = trial_of(viewer, record.pk, "work", hours=1)
    assert [(change.before, change.alternate) for change in tried.switches] == [("all", "few"), ("few", "all")]
    assert "It would have switched 2 times" in tried.text and "rate" in tried.text
    assert not trial_of(viewer, record.pk, "work", draft=PolicyDraft({"all": "rate < 1000"})).switches
    with pytest.raises(InvalidGuard):
        trial_of(viewer, record.pk, "work", draft=PolicyDraft({"all": "rate <"}))
    with pytest.raises(NotFound):
        trial_of(viewer, record.pk, "wrk")
    with pytest.raises(NotFound):
        trial_of(viewer, record.pk, "work", draft=PolicyDraft({"al": "rate < 1"}))


@pytest.mark.usefixtures("ten_minutes_of_rates")
def test_a_dry_run_that_would_take_long_is_refused_and_says_what_would_not(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    element, spent_s = running_element(viewer_of(world.carla), record.pk, "work"), iter([0.0, 1.0])
    end_s = NOW_S - NOW_S % 60
    with pytest.raises(InvalidGuard, match="takes more than 5 s to try"):
        guard_dry_runs.replayed(
            element, element.policy, begin_s=end_s - 600, end_s=end_s, spent_s=lambda: next(spent_s, 6.0))
    with monkeypatch.context() as patched, pytest.raises(InvalidGuard):
        patched.setattr(guard_dry_runs, "dry_run", lambda *_, **__: pytest.fail("gathering took its time already"))
        late_s = iter([0.0])
        guard_dry_runs.replayed(
            element, element.policy, begin_s=end_s - 600, end_s=end_s, spent_s=lambda: next(late_s, 6.0))
    run, _ = guard_dry_runs.replayed(
        element, element.policy, begin_s=end_s - 600, end_s=end_s, spent_s=lambda: 4.0)
    assert len(run.switches) == 2
    monkeypatch.setattr(guard_dry_runs, "WORKS_S", -1.0)
    with pytest.raises(InvalidGuard):
        trial_of(viewer_of(world.carla), record.pk, "work", hours=1)


@pytest.mark.usefixtures("ten_minutes_of_rates")
def test_page_and_api_show_guards_and_try_others(
    world: World, record: DataflowRecord, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "switches_of", lambda tasks: dict.fromkeys(tasks, ()))
    watches = GuardWatches()
    looked(watches, 20.0, second=0)
    watches.store()
    client.force_login(world.carla)
    address = f"/dataflows/{record.pk}/dynamic"
    page = client.get(address).text
    assert 'data-on="all"' in page and "events per second that reach the task" in page
    form = {"from": at(-3600).isoformat()[:19], "to": at(0).isoformat()[:19],
            "try": "work", "guard_all": "rate < 100", "guard_few": ""}
    assert 'data-trial="2"' in client.get(address, form).text
    refused = client.get(address, form | {"guard_all": "rte < 100"})
    assert refused.status_code == 400 and "Did you mean rate?" in refused.text
    alternates, name = f"/api/dataflows/{record.pk}/alternates", "work"
    answer = client.post(f"{alternates}/{name}/try", {
        "hours": 1, "guards": {"all": "rate < 100"}}, content_type="application/json").json()
    assert [(row["before"], row["alternate"]) for row in answer["switches"]] == [("all", "few"), ("few", "all")]
    [task] = client.get(alternates).json()
    assert task["readings"]["rate"] == 20.0
    assert client.get(f"{address}/wrk/charts.json").status_code == 404


def test_what_fails_is_told_once_in_each_case_tried_again_and_forgotten() -> None:
    failures, error = TaskFailures("not_read"), ValueError("no")
    with capture_logs() as entries:
        for second, circumstances in enumerate(("a", "a", "b")):
            failures.note("t", error, second, circumstances)
    assert [(entry["event"], entry["task"]) for entry in entries] == [("not_read", "t")] * 2
    assert failures.waits("t", "b", 2) and failures.waits("t", "b", 1 + AGAIN_S)
    assert not failures.waits("t", "a", 2) and not failures.waits("t", "b", 2 + AGAIN_S)
    for forget in (lambda: failures.keep({"u"}), lambda: failures.over("t")):
        failures.note("t", error, 2, "b")
        forget()
        assert not failures.waits("t", "b", 2)


def test_guards_that_failed_by_what_came_work_again_later(
    record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches, is_wrong = GuardWatches(), [True]
    read = guard_watches.read_events

    def read_or_fail(*of_task):
        if is_wrong[0]:
            raise ValueError("no event")
        return read(*of_task)

    monkeypatch.setattr(guard_watches, "read_events", read_or_fail)
    assert looked(watches, 200.0, second=0) == []
    is_wrong[0] = False
    assert [looked(watches, 200.0, second=second) for second in (5, 30)] == [[], []]
    assert not watches.are_there, "it waits"
    for second in (AGAIN_S, AGAIN_S + 10):
        switched_to = looked(watches, 200.0, second=second)
    assert switched_to == ["few"]
