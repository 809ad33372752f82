"""The page of adaptation and its charts, and the card of goals: empty, with goals, and after a decision."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.adaptation_recording import AdaptationRecorder
from dashboard.controllers.adaptation_told import PlannedFigures, ToldCourse
from dashboard.controllers.machines_told import PaidMachine, paid_between
from dashboard.controllers.models import MachineOrder, RoundRow
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.live_view.estate_history import KeptHistory
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.pages.adaptation_charts import adaptation_charts, adaptation_figure, machines_figure
from dashboard.pages.charts import iso_moment
from scheduler.controllers.evidence.expected_rates import ExpectedMinute
from scheduler.history.series import MINUTE, Series
from tests.dashboard.controlling import Loop
from tests.dashboard.test_adapting import dear, loop, overloaded, record  # noqa: F401
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

pytestmark = pytest.mark.django_db
GOALS = {"throughput": "0.9", "tolerance": "0.05", "most_per_hour": "0.3", "least_per_hour": "0", "hours": "12"}


def page(client_of: ClientOf, record: DataflowRecord, name: str = "adaptation") -> Markup:  # noqa: F811
    answer = client_of("carla").get(reverse(name, args=[record.pk]))
    assert answer.status_code == 200
    return Markup(answer.text)


def test_goals_are_chosen_on_the_dataflows_page(client_of: ClientOf, record: DataflowRecord) -> None:  # noqa: F811
    client = client_of("carla")
    client.post(reverse("dataflow_goals", args=[record.pk]), {"as": "none"})
    assert page(client_of, record).by("data-note")["no-goals"]
    client.post(reverse("dataflow_goals", args=[record.pk]), GOALS)
    record.refresh_from_db()
    assert record.goals_in_force is not None and record.goals_in_force.throughput == 0.9
    client.post(reverse("dataflow_goals", args=[record.pk]), GOALS | {"least_per_hour": "0.5"})
    text = client.get(reverse("dataflow", args=[record.pk])).text
    assert "more may be spent for the greatest value than for the least" in text
    assert "Throughput of at least 0.9<" in text
    client.post(reverse("dataflow_goals", args=[record.pk]), {"as": "document"})
    record.refresh_from_db()
    assert record.goals_in_force is None


@pytest.mark.usefixtures("dear")
def test_a_decision_is_shown_with_what_else_was_looked_at(
    loop: Loop, client_of: ClientOf, record: DataflowRecord  # noqa: F811
) -> None:
    assert page(client_of, record).by("data-note")["no-decision"]
    loop.at = timezone.now() - timedelta(seconds=30)
    overloaded(loop, record, per_s=400_000.0)
    loop.run(later_s=0.0)
    turn = RoundRow.objects.get(controller="adaptation")
    prepare_proposal(proposal_id=Proposal.objects.get(round=turn).pk)
    text = client_of("carla").get(reverse("adaptation", args=[record.pk])).text
    assert Markup(text).one("data-decision", turn.key) and "What else was looked at" in text
    assert "as it was" in text and ">chosen</span>" in text
    assert "Carry it out" not in text, "it acts by itself"


@pytest.mark.usefixtures("dear")
def test_what_was_recorded_is_drawn_with_its_goals_and_what_was_decided(
    loop: Loop, client_of: ClientOf, record: DataflowRecord  # noqa: F811
) -> None:
    loop.at = timezone.now() - timedelta(seconds=30)
    overloaded(loop, record, per_s=400_000.0)
    loop.run(later_s=0.0)
    turn = RoundRow.objects.get(controller="adaptation")
    RoundRow.objects.filter(pk=turn.pk).update(changed=turn.begun)
    now_s = int(loop.at.timestamp())
    values = AdaptationRecorder().values_of(view_for(EVERYTHING), now_s)
    assert {series.metric for series in values} == {
        "adapted_throughput", "adapted_value", "adapted_per_hour", "adapted_profit"}
    history = DatabaseHistory()
    history.append(now_s, values)
    history.flush()
    answer = client_of("carla").get(reverse("adaptation_charts", args=[record.pk]), {"range": "15m"}).json()
    by_name = {chart["name"]: chart for chart in answer["charts"]}
    assert list(by_name) == ["throughput", "value", "cost", "profit", "rate", "machines"]
    came, decided = by_name["throughput"]["data"]
    assert [value for value in came["y"] if value is not None] == [
        pytest.approx(values[Series("dataflow", str(record.pk), "adapted_throughput")], abs=1e-5)]
    chosen = json.loads(turn.decision["arguments"]["chosen"])
    assert {value for value in decided["y"] if value is not None} == {chosen["throughput"]}
    assert any(shape.get("label", {}).get("text") == "goal: 0.8" for shape in by_name["throughput"]["layout"]["shapes"])
    assert by_name["machines"]["empty"]
    assert [mark["text"] for mark in answer["marks"] if mark["what"] == "decision"] == [turn.decision["why"]]
    assert client_of("carla").get(reverse("adaptation_charts", args=[record.pk]), {"range": "7d"}).status_code == 200


def test_what_could_not_be_worked_out_leaves_the_recorder_alone(
    record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("no figures")

    monkeypatch.setattr("dashboard.controllers.adaptation_recording.points_now", fails)
    assert AdaptationRecorder().values_of(view_for(EVERYTHING), int(timezone.now().timestamp())) == {}


@pytest.mark.usefixtures("dear")
def test_a_recommendation_is_carried_out_or_declined_with_one_click(
    loop: Loop, client_of: ClientOf, record: DataflowRecord, capsys: pytest.CaptureFixture  # noqa: F811
) -> None:
    loop.set("recommends", controller="adaptation")
    overloaded(loop, record, per_s=400_000.0)
    loop.run()
    turn = RoundRow.objects.get(controller="adaptation")
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(round=turn).pk)
    address = reverse("adaptation", args=[record.pk])
    assert "Carry it out" not in client_of("vera").get(address).text
    assert "Carry it out" in client_of("ana").get(address).text
    [row] = client_of("ana").get("/api/controllers/adaptation/rounds").json()["items"]
    assert (row["proposal"], row["digest"]) == (str(proposal.pk), proposal.plan.digest)
    call_command("controller", decline=turn.key, username="ana")
    assert "is rejected" in capsys.readouterr().out
    proposal.refresh_from_db()
    assert proposal.status == "rejected"
    with pytest.raises(CommandError, match="No round"):
        call_command("controller", carry_out="adaptation-99", username="ana")
    loop.run()
    assert RoundRow.objects.get(pk=turn.pk).refused


@pytest.mark.usefixtures("dear")
def test_a_recommendation_is_carried_out_from_the_command_line(
    loop: Loop, record: DataflowRecord, capsys: pytest.CaptureFixture  # noqa: F811
) -> None:
    loop.set("recommends", controller="adaptation")
    overloaded(loop, record, per_s=400_000.0)
    loop.run()
    turn = RoundRow.objects.get(controller="adaptation")
    prepare_proposal(proposal_id=Proposal.objects.get(round=turn).pk)
    call_command("controller", carry_out=turn.key, username="ana")
    assert "is in progress" in capsys.readouterr().out


def past(**values: list[float | None]) -> ToldCourse:
    return ToldCourse(KeptHistory(MINUTE, 60, [0, 60, 120], values, ()), [PlannedFigures(50.0, {"throughput": 0.9})])


def test_what_is_foreseen_is_drawn_behind_what_came_and_what_was_foreseen_beside_it() -> None:
    course = past(events_in_per_s=[100.0] * 3, adapted_throughput=[1.0, None, 0.8], expected_per_s=[None, 120.0, 90.0])
    expected = [ExpectedMinute(180.0, 200.0, 150.0, 250.0), ExpectedMinute(240.0, 300.0, 240.0, 360.0)]
    figures = {chart.name: adaptation_figure(
        chart, course, None, marks=(), begin_s=0, end_s=180, expected=expected) for chart in adaptation_charts("EUR")}
    came, was, *ahead = figures["rate"]["data"]
    assert came["y"] == [100.0] * 3 and (was["name"], was["y"]) == ("was expected", [None, 120.0, 90.0])
    assert {trace["name"]: trace["y"] for trace in ahead} == {
        "expected": [200.0, 300.0], "expected, less its error": [150.0, 240.0],
        "expected, and its error": [250.0, 360.0]}
    assert {(trace["x0"], trace["dx"]) for trace in ahead} == {(iso_moment(180), 60_000)}
    assert figures["rate"]["layout"]["xaxis"]["range"] == [iso_moment(0), iso_moment(300)]
    throughput, decided = figures["throughput"]["data"]
    assert throughput["y"] == [1.0, None, 0.8] and decided["y"] == [None, 0.9, 0.9]
    for name in ("value", "cost", "profit"):
        assert figures[name]["data"] == [] and "Nothing was recorded" in figures[name]["empty"]


def test_machines_are_bars_while_they_work_and_while_they_are_paid() -> None:
    machines = [PaidMachine("d2-1", "D2", (0.0, 3600.0), (60.0, 3500.0), "2 slots"),
                PaidMachine("d2-2", "D2", (1000.0, 8200.0), None, "2 more"),
                PaidMachine("d2-0", "D2", (-9000.0, -1.0), None, "long gone")]
    figure = machines_figure(machines, begin_s=100, end_s=4000)
    works, paid = figure["data"]
    assert (works["name"], works["y"], works["base"], works["x"]) == (
        "works", ["d2-1"], [iso_moment(100)], [3_400_000.0])
    assert (paid["y"], paid["x"]) == (["d2-1", "d2-2"], [3_500_000.0, 7_200_000.0])
    assert figure["layout"]["xaxis"]["range"] == [iso_moment(100), iso_moment(8200)]
    assert [span["what"] for span in figure["spans"]] == ["d2-1 works", "d2-1 is paid", "d2-2 is paid"]


def test_what_goals_cost_is_said_where_it_is_known(
    loop: Loop, client_of: ClientOf, record: DataflowRecord  # noqa: F811
) -> None:
    address = reverse("dataflow_goals_prices", args=[record.pk])
    assert "Nothing is measured" in client_of("carla").get(address, GOALS).json()["why"]
    assert "no number" in client_of("carla").get(address, GOALS | {"throughput": "much"}).json()["why"]
    loop.at = timezone.now()
    overloaded(loop, record, per_s=100.0)
    offer = client_of("carla").get(address, GOALS).json()
    assert offer["alternates"].keys() == {"work"} and offer["throughput"] >= 0.9


def test_machines_on_order_are_listed_with_their_paid_hours(
    client_of: ClientOf, record: DataflowRecord  # noqa: F811
) -> None:
    assert not page(client_of, record).by("data-machine")
    begun = timezone.now() - timedelta(minutes=70)
    MachineOrder.objects.create(
        node="d2-1", size="D2", slots=2, per_hour=0.2, state="leaving", why="2 slots are wanted besides.",
        why_back="Its hour ends.", ordered=begun, next_try=begun, error="no quota")
    text = client_of("carla").get(reverse("adaptation", args=[record.pk])).text
    assert Markup(text).one("data-machine", "d2-1") and "0.4000" in text
    assert "Its hour ends." in text and "no quota" not in text
    [paid] = paid_between(begun.timestamp() - 60, begun.timestamp() + 3600)
    assert (paid.node, paid.works_s) == ("d2-1", None) and paid.paid_s[1] - paid.paid_s[0] == 7200
    [row] = client_of("carla").get("/api/machines").json()["machines"]
    assert (row["cost"], row["error"], row["gave_up"]) == (0.4, "", False)


def test_administrators_answer_recommended_machines_on_the_page(
    client_of: ClientOf, record: DataflowRecord  # noqa: F811
) -> None:
    now = timezone.now()
    MachineOrder.objects.create(
        node="d2-1", size="D2", slots=2, per_hour=0.2, state="recommended", why="", ordered=now, next_try=now)
    address = reverse("adaptation", args=[record.pk])
    assert "Order d2-1" not in client_of("carla").get(address).text
    assert "Order d2-1" in client_of("root").get(address).text
    client_of("root").post(reverse("machine_answer", args=[record.pk, "d2-1", "decline"]))
    order = MachineOrder.objects.get()
    assert (order.state, order.why_back) == ("declined", "root declined it.")
    assert not paid_between(now.timestamp() - 60, now.timestamp() + 60)
