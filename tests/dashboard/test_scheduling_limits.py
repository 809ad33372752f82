"""What a question about schedules may cost, and rates that are none."""

from __future__ import annotations

import json
import re

import pytest

from dashboard.plans import scheduling_problem
from dashboard.plans.scheduling_problem import problem_of
from scheduler.pairs import QUICK_PAIRS
from tests.cases import each
from tests.dashboard.building import World, planned
from tests.pages.scheduling import linear


def test_many_rates_at_once_share_what_one_question_may_cost(profiled: World, monkeypatch):
    problem = problem_of(planned(profiled.carla, profiled.city, linear()).dataflow)
    assert not any("error" in row for row in problem.what_if([50.0] * 40))
    monkeypatch.setattr(scheduling_problem, "MOST_THREADS_AT_ONCE", 2 * 40 * len(QUICK_PAIRS))
    for row in problem.what_if([50.0] * 40):
        assert row["error"]["code"] == "rate_not_held" and row["error"]["facts"]["most_threads"] == 2
    assert not any("error" in row for row in problem.what_if([50.0])), "one rate has all of it"


@each("rate", ["1e-320", "1e308", "1e13", "nan", "-1", "inf"])
def test_a_rate_that_is_none_is_refused_by_page_and_api_alike(profiled: World, client, rate: str):
    client.force_login(profiled.carla)
    record = planned(profiled.carla, profiled.city, linear()).dataflow
    answer = client.get(f"/api/dataflows/{record.pk}/schedules", {"rate_per_s": rate})
    assert answer.status_code == 422 and json.loads(answer.content)["code"] == "invalid_resources"
    for page, name in (("schedule", "rate"), ("schedule/pairs.json", "rate"), ("schedule/curve.json", "most")):
        assert client.get(f"/dataflows/{record.pk}/{page}", {name: rate}).status_code == 422, page


def test_the_slider_ends_where_rates_do(profiled: World, client):
    client.force_login(profiled.carla)
    address = f"/dataflows/{planned(profiled.carla, profiled.city, linear()).dataflow.pk}/schedule"
    page = client.get(address, {"rate": "5e11"})
    most = re.search(r'data-most="([^"]+)"', page.content.decode())
    assert page.status_code == 200 and most and float(most[1]) == 1e12
    assert client.get(f"{address}/curve.json", {"most": most[1]}).status_code == 200


def test_answers_are_json_that_every_reader_takes(profiled: World, client):
    client.force_login(profiled.carla)
    record = planned(profiled.carla, profiled.city, linear()).dataflow
    for rate in (1e-6, 1e-3, 50, 1e9):
        for path in (f"schedules?rate_per_s={rate}", f"what-if?most_per_s={rate}&points=3"):
            answer = client.get(f"/api/dataflows/{record.pk}/{path}")
            json.loads(answer.content, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
