"""The page of dynamic tasks and its charts, switches as marks, dynamic tasks in graphs, places of guards in texts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from urllib.parse import urlencode

import pytest
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard import jobs
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.approvals.services import pause_dataflow, prepare_proposal, propose_policy, switch_alternate
from dashboard.approvals.services.rearrangement_proposals import open_switch
from dashboard.audit.trail import audited
from dashboard.catalog.document_checks import check_document
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.pages.dynamic_charts import AlternateSpan, chart_name, spans_on
from dashboard.pages.graphs import dataflow_graph
from scheduler.contracts.switches import AlternateSwitch, KeySwitch
from scheduler.guards.policy_sources import RULES
from scheduler.guards.task_figures import subject_of
from tests.dashboard.building import World, approved, document, enacted, running
from tests.pages.conftest import ClientOf

pytestmark = pytest.mark.django_db
WAYS = [
    {"name": "all", "type": "sql", "config": {"query": "SELECT *, 'all' AS made FROM input"}, "value": 2,
     "guard": "mean(rate, '1 min') < 100"},
    {"name": "few", "type": "sql", "config": {"query": "SELECT *, 'few' AS made FROM input WHERE value > 20"}}]


def dynamic(name: str = "air") -> str:
    """A chain whose third task has alternates."""
    whole = json.loads(document(name))
    whole["tasks"][2] = {"id": "work", "alternates": WAYS}
    whole["streams"] = [
        {key: {"average": "work"}.get(end, end) for key, end in stream.items()} for stream in whole["streams"]]
    return json.dumps(whole)


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, dynamic(), world.ana)


@pytest.fixture
def task(record: DataflowRecord) -> str:
    """The running task."""
    return load_estate().submitted[str(record.pk)].running["work"]


@pytest.fixture
def now_s() -> int:
    """A moment at which a point of ten seconds begins."""
    return int(timezone.now().timestamp()) // 10 * 10


@pytest.fixture
def history(task: str, now_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes: few events, many for three minutes, few; and what queries noted of switches."""
    [line], store = subject_of(load_estate(), task).series("rate"), DatabaseHistory()
    for second in range(now_s - 600, now_s, 10):
        store.append(second, {line: 200.0 if now_s - 480 <= second < now_s - 300 else 20.0})
    store.flush()
    noted = [AlternateSwitch(name, "f1-0", batch, 10 * batch, 1000 * (now_s - ago))
             for batch, (name, ago) in enumerate([("all", 590), ("few", 440), ("all", 250)])]
    monkeypatch.setattr(jobs, "switches_of", lambda tasks: dict.fromkeys(tasks, tuple(noted)))


def over(now_s: int, **more: str) -> str:
    """The address's part for the ten minutes."""
    moments = (datetime.fromtimestamp(at_s, UTC).isoformat()[:19] for at_s in (now_s - 600, now_s))
    return urlencode(dict(zip(("from", "to"), moments, strict=True)) | more)


@pytest.mark.usefixtures("history")
def test_charts_tell_which_was_on_what_guards_saw_and_a_dry_run(
    record: DataflowRecord, now_s: int, client_of: ClientOf
) -> None:
    client, address = client_of("vera"), reverse("dynamic_charts", args=[record.pk, "work"])
    on, rate = client.get(f"{address}?{over(now_s)}").json()["charts"]
    bars = {trace["name"]: trace for trace in on["data"]}
    assert bars["on"]["y"] == ["all", "few", "all"]
    assert sum(bars["on"]["x"]) == 590_000 and bars["on"]["x"][1] == 190_000
    assert set(bars["its guard is true"]["y"]) == {"all"} and len(bars["its guard is true"]["y"]) == 2
    assert [trace["name"] for trace in rate["data"]] == ["rate", "mean(rate, '1 min')"]
    assert max(value for value in rate["data"][0]["y"] if value is not None) == 200.0
    [level] = [shape for shape in rate["layout"]["shapes"] if shape["yref"] == "y"]
    assert (level["y0"], level["label"]["text"]) == (100.0, "all: < 100/s")
    assert rate["layout"]["yaxis"]["ticksuffix"] == "/s" and len(rate["lanes"][0]["spans"]) == 2
    tried = client.get(f"{address}?{over(now_s, **{'try': 'work', 'guard_all': 'rate > 100'})}").json()["charts"][0]
    [would] = [trace for trace in tried["data"] if trace["name"] == "dry run: would be on"]
    assert would["y"] == ["few", "all", "few"] or would["y"] == ["all", "few", "all", "few"]
    assert all(one["to"] >= one["from"] for one in tried["spans"])
    only = client.get(f"{address}?{over(now_s, only='on')}").json()["charts"]
    assert [chart["name"] for chart in only] == ["on"]


@pytest.mark.usefixtures("history")
def test_the_page_says_which_is_on_tries_a_policy_and_says_what_is_wrong_with_one(
    record: DataflowRecord, now_s: int, client_of: ClientOf
) -> None:
    client, address = client_of("carla"), f"/dataflows/{record.pk}/dynamic"
    page = client.get(f"{address}?{over(now_s)}").text
    assert 'data-on="all"' in page and 'data-alternate="work/few"' in page and 'data-chart="saw-rate"' in page
    assert 'data-version="0"' in page and "Switch to" in page
    form = {"try": "work", "guard_all": "rate < 100", "guard_few": ""}
    tried = client.get(f"{address}?{over(now_s, **form)}").text
    assert 'data-trial="2"' in tried and "Propose this policy" in tried
    refused = client.get(f"{address}?{over(now_s, **form | {'guard_all': 'rte < 100'})}")
    assert refused.status_code == 400 and "Did you mean rate?" in refused.text
    assert "Of all: The guard cannot be used" in refused.text
    assert "<option disabled>all</option><option>few</option>" in page, "what is on is not offered"
    assert 'data-chart="saw-rate"' in refused.text and "try=" not in refused.text.partition("data-charts=")[2][:120]
    assert "Switch to" not in client_of("vera").get(address).text


def test_what_a_version_changed_of_the_policy_is_told(
    record: DataflowRecord, world: World, client_of: ClientOf
) -> None:
    enacted(approved(prepare_proposal(proposal_id=propose_policy(
        actor=world.carla, dataflow_id=record.pk, task="work", reason="Rush hours",
        draft=PolicyDraft({"all": "rate < 50"}, {"few": 0.25})).pk), world.ana))
    page = client_of("carla").get(f"/dataflows/{record.pk}/dynamic").text
    assert "Rush hours" in page and "<ins>rate &lt; 50</ins>" in page
    assert "<del>mean(rate, &#x27;1 min&#x27;) &lt; 100</del>" in page and "<ins>0.25</ins>" in page


def test_pages_without_a_dynamic_task_that_runs_say_so(
    record: DataflowRecord, world: World, client_of: ClientOf
) -> None:
    plain = running(world.carla, world.city, document("plain", window=7), world.ana)
    client = client_of("carla")
    assert 'data-note="none"' in client.get(f"/dataflows/{plain.pk}/dynamic").text
    assert "/dynamic" not in client.get(f"/dataflows/{plain.pk}/").text
    assert f"/dataflows/{record.pk}/dynamic" in client.get(f"/dataflows/{record.pk}/").text
    enacted(approved(prepare_proposal(proposal_id=pause_dataflow(
        actor=world.carla, dataflow_id=record.pk).pk), world.ana))
    paused = client.get(f"/dataflows/{record.pk}/dynamic").text
    assert 'data-on="all"' in paused and "Switch to" not in paused  # it is in the estate still
    assert client_of("mo").get(f"/dataflows/{record.pk}/dynamic/wrk/charts.json").status_code == 404


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_switch_is_a_mark_on_every_chart_that_says_why(
    record: DataflowRecord, world: World, client_of: ClientOf, by_hand: bool
) -> None:
    if by_hand:
        proposal = switch_alternate(actor=world.carla, dataflow_id=record.pk, task="work", alternate="few")
        enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))
    else:
        with audited(actor=None, verb="dataflow.switch", subject=record, team=record.team) as audit:
            proposal = open_switch(audit, record, {
                "task": "work", "alternate": "few", "reason": "the rate is 200", "source": RULES})
        enacted(prepare_proposal(proposal_id=proposal.pk))
    answer = client_of("vera").get(f"/charts.json?kind=dataflow&subject={record.pk}&range=15m").json()
    [mark] = [mark for mark in answer["marks"] if mark["what"] == "switch"]
    assert mark["text"].startswith("work of air: few is on, ")
    assert ("by carla." if by_hand else "because the rate is 200.") in mark["text"]


def test_spans_join_where_another_query_goes_on_and_end_with_the_time() -> None:
    noted = [AlternateSwitch(name, query, 0, 0, at_ms) for name, query, at_ms in [
        ("all", "f1-0", 100), ("all", "f2-0", 300), ("few", "f2-0", 500)]]
    assert spans_on(noted, begin_ms=200, end_ms=800) == [AlternateSpan("all", 200, 500), AlternateSpan("few", 500, 800)]
    assert spans_on(noted, begin_ms=0, end_ms=50) == [] and spans_on([], begin_ms=0, end_ms=50) == []
    for one, other in pairwise(spans_on(noted, begin_ms=0, end_ms=10_000)):
        assert one.end_ms == other.begin_ms


def test_a_graph_has_the_alternates_of_a_dynamic_task_and_which_is_on(
    record: DataflowRecord, client_of: ClientOf
) -> None:
    graph = client_of("vera").get(f"/dataflows/{record.pk}/graph.json").json()
    [work] = [task for task in graph["tasks"] if task["id"] == "work"]
    assert "dynamic" in work["marks"]
    assert [(way["name"], way["on"], way["does"]) for way in work["ways"]] == [
        ("all", True, "sql"), ("few", False, "sql")]
    assert all("ways" not in task for task in graph["tasks"] if task["id"] != "work")


def test_a_plan_draws_the_alternate_that_will_be_on(record: DataflowRecord, world: World, client_of: ClientOf) -> None:
    proposal = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few").pk)
    graph = client_of("carla").get(f"/proposals/{proposal.pk}/graph.json").json()
    [work] = [task for task in graph["tasks"] if task.get("ways")]
    assert [way["name"] for way in work["ways"] if way["on"]] == ["few"]


def test_a_path_is_drawn_by_its_tasks() -> None:
    path = {"name": "long", "tasks": [{"id": "a", "type": "sql", "config": {"query": "SELECT * FROM input"}},
                                      {"id": "b", "type": "sql", "config": {"query": "SELECT * FROM input"}}],
            "streams": [{"from": "input", "to": "a"}, {"from": "a", "to": "b"}, {"from": "b", "to": "output"}]}
    config = {"alternates": [path, {"name": "short", "type": "sql", "config": {"query": "SELECT * FROM input"}}]}
    graph = dataflow_graph(
        {"tasks": [{"id": "w", "type": "dynamic", "kind": "transform", "config": config}], "streams": []},
        shared_with={}, on={"w": "long"})
    [work] = graph["tasks"]
    assert [(way["on"], way["does"]) for way in work["ways"]] == [(True, "sql → sql"), (False, "sql")]


TEXT = """\
name: air
tasks:
  - {id: readings, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - id: work
    alternates:
      - name: all
        type: sql
        config: {query: "SELECT * FROM input"}
        guard: %s
      - {name: few, type: sql, config: {query: "SELECT * FROM input WHERE value > 20"}}
  - {id: keep, type: output, config: {name: kept}}
streams: [{from: readings, to: parse}, {from: parse, to: work}, {from: work, to: keep}]
rates: {readings: 10}
"""


@pytest.mark.parametrize("written", [
    "rate > 100 AND rte > 3", "'rate > 100 AND rte > 3'", '"rate > 100   AND  rte > 3"',
    "|\n          rate > 100\n          AND   rte > 3", "|\n          rte > 3"])
def test_what_is_wrong_with_a_guard_is_told_at_its_line_and_column(written: str) -> None:
    text = TEXT % written
    [problem] = check_document(text, format="yaml").problems
    line = text.splitlines()[problem.line - 1]
    assert line[problem.column - 1:].startswith("rte > 3") and "Did you mean rate?" in problem.remedy


def test_the_same_in_json_and_where_a_text_is_written_with_escapes() -> None:
    whole = json.loads(dynamic())
    whole["tasks"][2]["alternates"][1]["guard"] = "rate > 100 AND rte > 3"
    text = json.dumps(whole, indent=1)
    [problem] = check_document(text).problems
    assert text.splitlines()[problem.line - 1][problem.column - 1:].startswith("rte > 3")
    escaped = text.replace("rate > 100 AND rte", "rate \\u003e 100 AND rte")
    [problem] = check_document(escaped).problems
    assert escaped.splitlines()[problem.line - 1][problem.column - 1:].startswith('"rate')


@pytest.mark.parametrize("is_by_key", [False, True])
def test_the_page_says_that_keys_have_alternates_of_their_own(
    world: World, client_of: ClientOf, is_by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = (KeySwitch({"m0": "arima", "m1": "arima"}, "q", 1, 1, 1),)
    monkeypatch.setattr(
        jobs, "switches_of", lambda tasks, of_keys=False: dict.fromkeys(tasks, noted if of_keys else ()))
    config = {"by": ["meter"], "value": "kwh", "at": "at"}
    ways = [{"name": name, "type": "forecast", "config": config | {"method": name}} for name in ("tree", "arima")]
    record = running(world.carla, world.city, json.dumps({
        "name": "households", "tasks": [
            {"id": "meters", "type": "smart_meters"},
            {"id": "next", "begin": "shared", "alternates": ways} | ({"by": ["meter"]} if is_by_key else {}),
            {"id": "out", "type": "output", "config": {"name": "households"}}],
        "streams": [{"from": "meters", "to": "next"}, {"from": "next", "to": "out"}]}), world.ana)
    page = client_of("carla").get(f"/dataflows/{record.pk}/dynamic").text
    assert ("Each meter may have an alternate of its own" in page) is is_by_key
    assert "only people switch" in page
    assert re.findall(r'data-label="Keys">(\d+)<', page) == (["2", "0"] if is_by_key else [])


@given(first=st.text(max_size=12), second=st.text(max_size=12))
def test_charts_of_two_calculations_have_two_names(first: str, second: str) -> None:
    assert (chart_name(first) == chart_name(second)) == (first == second)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", chart_name(first))


def test_what_differs_by_a_sign_has_two_charts() -> None:
    assert chart_name("rate + 1") != chart_name("rate - 1")
