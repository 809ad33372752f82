"""How often the jobs of a worker that has nothing to do ask the database: with 50 dataflows as often as with five."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard import jobs
from dashboard.alerts import evaluating
from dashboard.alerts.models import RuleRow
from dashboard.alerts.rules_in_force import scope_of
from dashboard.approvals.lifecycle import DONE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, submit_dataflow
from dashboard.audit.trail import audited
from dashboard.bills import charging
from dashboard.controllers import loop_runner, stored_rounds
from dashboard.controllers.models import LoopRow, ReasonRow
from dashboard.operations.live_view import telemetry
from dashboard.operations.live_view.cost_learning import note_slots
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import CostObservation, NodeRow
from dashboard.tasks import planning
from dashboard.tasks.clock import SCHEDULE
from dashboard.tasks.controlling import ACTUATORS
from dashboard.tasks.recording import Recorder
from dashboard.teams.models import Team
from scheduler.controllers.loop_values import IdleReason
from scheduler.performance.cost_model import QuerySeen, SlotSeen
from tests.benches.site_estate import let_dataflows_run
from tests.dashboard.building import World, approved, document, enacted, running
from tests.dashboard.played import Played
from tests.dashboard.slots_at_work import Slots

SLOTS = 8
MOST_OF_AN_UPLOAD = 122  # statements, from the upload until it runs, with approvals of two teams


def statements(act: Callable[[], object]) -> int:
    """How often it asks the database. In how many statements rows are written is the database's to say."""
    with CaptureQueriesContext(connection) as captured:
        act()
    texts = [query["sql"] for query in captured.captured_queries]
    return sum(not sql.startswith(("INSERT", "SAVEPOINT", "RELEASE")) for sql in texts)


def test_no_command_of_an_upload_asks_for_the_same_rows_twice(world: World) -> None:
    running(world.mo, world.mobility, document("before", window=7), world.ben)
    times_by_select: dict[str, int] = {}
    count = 0

    def note(execute: Callable, sql: str, params: object, many: bool, context: object) -> object:
        nonlocal count
        count += 1
        if written := re.match(r'(?:INSERT (?:OR IGNORE )?INTO|UPDATE|DELETE FROM) ("\w+")', sql):
            for select in [select for select in times_by_select if written[1] in select]:
                del times_by_select[select]
        elif sql.startswith("SELECT"):
            times_by_select[f"{sql} {params}"] = times_by_select.get(f"{sql} {params}", 0) + 1
        return execute(sql, params, many, context)

    proposal = Proposal()
    for command in (
        lambda _: submit_dataflow(actor=world.carla, team=world.city, text=document("traffic")),
        lambda submitted: prepare_proposal(proposal_id=submitted.pk),
        lambda pending: approved(pending, world.ana),
        lambda pending: approved(pending, world.ben),
        enacted,
    ):
        times_by_select.clear()
        with connection.execute_wrapper(note):
            proposal = command(proposal)
        twice = [select for select, times in times_by_select.items() if times > 1]
        # Roles may have ended while a command waited for its turn to write.
        assert [select for select in twice if 'FROM "teams_membership"' not in select] == []
    assert proposal.status == DONE
    assert count <= MOST_OF_AN_UPLOAD


def test_a_round_of_the_pacer_asks_as_often_with_more_queries(world: World, played: Played) -> None:
    played.refusal = None  # no slot has said yet whether batches can stay open

    def asked_with_another(name: str) -> int:
        running(world.carla, world.city, document(name, window=len(name)), world.ana)
        played.run(80)  # by then it is known what its batches cost
        played.now_s += 10
        view = view_for(EVERYTHING)
        return statements(lambda: played.pacer.look(view, played.now_s))

    few, _, many = [asked_with_another(name) for name in ("one", "three", "seventh")]
    assert few == many


@pytest.mark.parametrize("count", [5, 50])
def test_quiet_jobs_ask_as_often_with_more_dataflows(
    db: None, count: int, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    settings.LONGEST_TRIGGER_MS = 30_000
    let_dataflows_run(count, nodes=("n1",), slots=SLOTS)
    played = Played(monkeypatch)
    played.run(10)
    reading, at = played.reading(), played.at
    slots = Slots({f"n1/{index}": 0.0 for index in range(SLOTS)}, since=at - timedelta(hours=2))
    counters: list[dict] = []

    def slot_counters(look_up: Callable) -> dict:
        look_up([query for slot in counters[-1].values() for query in slot["queries"]])
        return counters[-1]

    for name, answer in {
        "read_live": lambda *_: reading, "waiting_events": lambda *_: {}, "event_bytes": lambda *_: {},
        "hold_turn": lambda *_, **__: True, "notable_events_after": lambda after: (after, []),
        "slot_counters": slot_counters,
    }.items():
        monkeypatch.setattr(jobs, name, answer)
    recorder = Recorder()

    def count_at(at: datetime) -> dict[str, int]:
        now_s = int(at.timestamp())
        slots.work(20)
        counters.append(slots.read(lambda ids: {}))
        return {
            "controllers": statements(lambda: loop_runner.run(ACTUATORS, at=at)),
            "alerts": statements(lambda: evaluating.evaluate_round(now_s=now_s)),
            "bills": statements(lambda: charging.record_usage(at=at)),
            "nodes": statements(lambda: telemetry.record_nodes(at=at)),
            "guard": statements(planning.guard),
            "clock": statements(lambda: [job.is_wanted() for job in SCHEDULE if job.is_wanted]),
            "recorder, each second": statements(lambda: recorder.tick(now_s - 2)),
            "recorder, each ten": statements(lambda: recorder.tick(now_s))}

    *_, counts = [count_at(at + timedelta(seconds=20 * number)) for number in (1, 2, 3)]  # the first note what is new
    most = {"controllers": 30, "alerts": 21, "bills": 18, "nodes": 3, "guard": 8, "clock": 8,
            "recorder, each second": 4, "recorder, each ten": 12}
    assert {job: number for job, number in counts.items() if number > most[job]} == {}


def test_why_things_are_left_is_noted_at_once_for_all(world: World) -> None:
    records = [running(world.carla, world.city, document(f"flow-{number}", window=number + 2), world.ana)
               for number in range(4)]
    at = timezone.now()

    def noted(count: int, why: str, minutes: int) -> int:
        reasons = [IdleReason("city", str(record.pk), why) for record in records[:count]]
        with audited(actor=None, verb="test") as audit:
            audit.nothing_changed()
            return statements(lambda: stored_rounds.note("chaining", reasons, at=at + timedelta(minutes=minutes)))

    assert noted(1, "It is busy.", 0) == noted(4, "It is idle.", 1)
    rows = ReasonRow.objects.filter(controller="chaining")
    assert rows.count() == 5 and set(rows.values_list("dataflow", flat=True)) == {record.pk for record in records}
    assert noted(1, "It is idle.", 2) == noted(4, "It is idle.", 3)
    assert sorted(rows.filter(gist="It is idle.").values_list("times", flat=True)) == [2, 2, 2, 3]
    noted(1, "It is busy.", 4)
    assert rows.filter(gist="It is busy.").count() == 2, "what was said of it last is something else"
    assert stored_rounds.forget_reasons(at + timedelta(days=14, seconds=30)) == 1


def test_a_controller_that_has_nothing_to_do_is_left_alone(
    world: World, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {})
    monkeypatch.setattr(jobs, "event_bytes", lambda _: {})
    at = played.at
    loop_runner.run(ACTUATORS, at=at)
    decided_s = LoopRow.objects.get().decided_s
    assert set(decided_s) == set(ACTUATORS)
    turns: list[str] = []
    take_turn = loop_runner.take_turn
    monkeypatch.setattr(
        loop_runner, "take_turn", lambda controller, *given: turns.append(controller.name) or take_turn(
            controller, *given))
    loop_runner.run(ACTUATORS, at=at + timedelta(seconds=1))
    assert turns == []
    loop_runner.run(ACTUATORS, at=at + timedelta(seconds=10))
    assert "open_batches" in turns and "remeasuring" not in turns
    assert set(turns) == {name for name, moment in LoopRow.objects.get().decided_s.items() if moment > decided_s[name]}


def test_rules_of_all_teams_are_read_at_once(world: World) -> None:
    def round_of_alerts() -> int:
        return statements(lambda: evaluating.evaluate_round(now_s=next(moments)))

    moments = iter(range(1_800_000_000, 1_900_000_000, 3_600))  # each a moment for every rule
    before = [round_of_alerts() for _ in range(5)][-1]  # people have been told that the broker is away
    teams = Team.objects.bulk_create(Team(slug=f"team-{number}", name=f"Team {number}") for number in range(10))
    RuleRow.objects.bulk_create(
        RuleRow(team=team, scope=scope_of(team), kind="latency", threshold=1.0, clear_threshold=1.0, for_s=1,
                clear_for_s=1, severity="info") for team in teams)
    assert round_of_alerts() == before


def test_what_slots_take_is_noted_at_once_for_all(world: World) -> None:
    NodeRow.objects.update(machine="a machine")
    at = timezone.now()

    def noted(count: int) -> int:
        seen = {f"n1/{number}": SlotSeen(60.0, 1_000, (QuerySeen("f1-0", 10, (("average", 7),), None),))
                for number in range(count)}
        return statements(lambda: note_slots(seen, at=at))

    assert noted(1) == noted(9) == noted(9)
    rows = CostObservation.objects.order_by("slot")
    assert [row.cpu_us for row in rows] == [3_000] + 8 * [2_000]
    assert rows[0].queries == {"f1-0": {"batches": 30, "tasks": [["average", 21]]}}
