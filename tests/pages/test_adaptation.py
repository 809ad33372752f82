"""The page of adaptation and its charts, and the card of goals: empty, with goals, and after a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.models import MachineOrder, RoundRow
from dashboard.pages.adaptation_charts import adaptation_charts, adaptation_figure
from dashboard.pages.charts import iso_moment
from scheduler.contracts.switches import AlternateSwitch
from scheduler.controllers.evidence.adaptations import AdaptationPoint
from scheduler.controllers.evidence.expected_rates import ExpectedMinute
from tests.dashboard.building import World
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
    assert "Of what could leave 0.9 is to" in text
    client.post(reverse("dataflow_goals", args=[record.pk]), {"as": "document"})
    record.refresh_from_db()
    assert record.goals_in_force is None


@pytest.mark.usefixtures("dear")
def test_a_decision_is_shown_with_what_else_was_looked_at(
    world: World, loop: Loop, client_of: ClientOf, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch  # noqa: F811
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
    monkeypatch.setattr(jobs, "switches_of", lambda tasks, of_keys=False: {
        task: (AlternateSwitch("all", "q", 1, 0, 0),) for task in tasks} if not of_keys else {})
    charts = client_of("carla").get(reverse("adaptation_charts", args=[record.pk]), {"range": "15m"}).json()["charts"]
    by_name = {chart["name"]: chart for chart in charts}
    assert list(by_name) == ["throughput", "value", "cost", "profit", "rate"]
    known = [value for value in by_name["throughput"]["data"][0]["y"] if value is not None]
    assert known and all(0 <= value <= 1 for value in known)
    assert any(shape.get("label", {}).get("text") == "goal: 0.8" for shape in by_name["throughput"]["layout"]["shapes"])


def test_what_is_foreseen_is_drawn_behind_what_came() -> None:
    points = [AdaptationPoint(float(at_s), 100.0, 1.0, 1.0, None, None) for at_s in (0, 60, 120)]
    expected = [ExpectedMinute(180.0, 200.0, 150.0, 250.0), ExpectedMinute(240.0, 300.0, 240.0, 360.0)]
    figures = {chart.name: adaptation_figure(
        chart, points, None, marks=(), begin_s=0, end_s=180, expected=expected) for chart in adaptation_charts("EUR")}
    came, *ahead = figures["rate"]["data"]
    assert came["y"] == [100.0] * 3
    assert {trace["name"]: trace["y"] for trace in ahead} == {
        "expected": [200.0, 300.0], "expected, less its error": [150.0, 240.0],
        "expected, and its error": [250.0, 360.0]}
    assert {(trace["x0"], trace["dx"]) for trace in ahead} == {(iso_moment(180), 60_000)}
    assert figures["rate"]["layout"]["xaxis"]["range"] == [iso_moment(0), iso_moment(300)]
    for name in figures.keys() - {"rate"}:
        assert len(figures[name]["data"]) <= 1 and figures[name]["layout"]["xaxis"]["range"][1] == iso_moment(180)


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
    [row] = client_of("carla").get("/api/machines").json()["machines"]
    assert (row["cost"], row["error"], row["gave_up"]) == (0.4, "", False)
