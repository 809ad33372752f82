"""Logs as people read them: what nodes are asked, what of their answers is told, and to whom."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from dashboard import jobs, node_calls
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.log_reading import (
    LogQuestion,
    ReadLog,
    ReadLogLine,
    as_text,
    dataflow_log,
    process_log,
)
from dashboard.operations.models import FragmentRow
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import InvalidValue, create_token
from scheduler.contracts.logs import ERROR, INFO, SEARCHED, LogAnswer, LogLine, LogOrder
from scheduler.contracts.reports import Reports
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.estate import Estate
from tests.dashboard.building import World, document, running
from tests.pages.markup import Markup

pytestmark = pytest.mark.django_db


class Nodes:
    """Nodes that answer what a test says, and remember what they were asked."""

    def __init__(self) -> None:
        self.orders: list[LogOrder] = []
        self.lines: dict[str, list[LogLine]] = {}
        self.left_out = 0

    def answer(self, orders: Sequence[LogOrder]) -> dict[str, LogAnswer]:
        self.orders += orders
        return {
            order.node: LogAnswer(tuple(self.lines[order.node]), f"ab:{len(self.lines[order.node])}", self.left_out)
            for order in orders if order.node in self.lines}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr(node_calls, "read_logs", made.answer)
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reported("n1", "n2")))
    return made


def reported(*names: str) -> Reports:
    return Reports.of({name: {"at_ms": 0} for name in names})


@pytest.fixture
def dataflow(world: World) -> Any:
    return running(world.carla, world.city, document("traffic"), world.ana)


def ids_of(dataflow: Any) -> dict[str, str]:
    return dict(load_estate().submitted[str(dataflow.pk)].running)


def test_a_dataflow_is_read_by_its_queries_and_tasks_and_lines_have_its_own_names(
    world: World, dataflow: Any, nodes: Nodes
) -> None:
    tasks = ids_of(dataflow)
    query = load_estate().places[tasks["parse"]][0]
    nodes.lines["n1"] = [
        LogLine(2_000, ERROR, "0", f"task {tasks['parse']}: ValueError: no", query),
        LogLine(1_000, INFO, "0", "heard", query, tasks["parse"])]
    nodes.left_out = 3
    log = dataflow_log(viewer_of(world.carla), dataflow.pk, LogQuestion())
    [order] = nodes.orders
    assert (order.node, set(order.tasks), order.process) == ("n1", set(tasks.values()), "")
    assert query in order.queries and set(order.queries) <= set(load_estate().fragments)
    assert [(line.task, line.query, line.text) for line in log.lines] == [
        ("parse", query, "heard"), ("", query, "task parse: ValueError: no")], "the oldest first"
    assert (log.left_out, log.missing, log.after) == (3, [], "n1=ab:2")


def test_a_task_is_read_alone_and_what_is_asked_for_goes_to_the_node(
    world: World, dataflow: Any, nodes: Nodes
) -> None:
    nodes.lines["n1"] = []
    question = LogQuestion(ERROR, "x" * 500, 10**9, "n1=ab:7,n2=../x,n1b,=")
    log = dataflow_log(viewer_of(world.carla), dataflow.pk, question, task="parse")
    [order] = nodes.orders
    assert order.tasks == (ids_of(dataflow)["parse"],) and order.level == ERROR
    assert (order.search, order.count, order.after) == ("x" * SEARCHED, 1_000, "ab:7")
    assert log.after == "n1=ab:0"
    with pytest.raises(NotFound):
        dataflow_log(viewer_of(world.carla), dataflow.pk, LogQuestion(), task="none")
    with pytest.raises(InvalidValue):
        dataflow_log(viewer_of(world.carla), dataflow.pk, LogQuestion(level="loud"))


def test_a_node_that_is_away_is_named_and_not_asked(
    world: World, dataflow: Any, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dataflow_log(viewer_of(world.carla), dataflow.pk, LogQuestion()).missing == ["n1"], "it said nothing"
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reported()))
    nodes.orders.clear()
    log = dataflow_log(viewer_of(world.carla), dataflow.pk, LogQuestion(after="n1=ab:7"))
    assert (log.missing, log.after, nodes.orders) == (["n1"], "n1=ab:7", [])


def test_members_of_its_team_read_a_dataflows_log_and_others_who_see_it_do_not(
    world: World, dataflow: Any, nodes: Nodes
) -> None:
    nodes.lines["n1"] = []
    for user in (world.vera, world.carla, world.ana, world.root):
        dataflow_log(viewer_of(user), dataflow.pk, LogQuestion())
    with pytest.raises(PermissionDenied, match="values of events"):
        dataflow_log(viewer_of(world.mo), dataflow.pk, LogQuestion())
    hidden = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    with pytest.raises(NotFound):
        dataflow_log(viewer_of(world.mo), hidden.pk, LogQuestion())


def test_what_is_read_with_another_teams_credential_is_in_no_log_of_a_dataflow_that_shares_it(
    world: World, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.operations.estate_store import readable

    record = running(world.carla, world.city, document("traffic"), world.ana)
    tasks, nodes.lines["n1"] = ids_of(record), []
    monkeypatch.setattr(readable, "is_told_to_all", lambda estate, task: False)
    monkeypatch.setattr(readable, "is_readable", lambda viewer, task: task == tasks["sense"])
    dataflow_log(viewer_of(world.carla), record.pk, LogQuestion())
    [order] = nodes.orders
    assert order.tasks == (tasks["sense"],)
    with_others = {
        name for name, fragment in load_estate().fragments.items() if {*fragment.active_tasks} - {tasks["sense"]}}
    assert not with_others & set(order.queries), "a query's lines may show events of any of its tasks"
    with pytest.raises(PermissionDenied):
        dataflow_log(viewer_of(world.carla), record.pk, LogQuestion(), task="parse")


def test_lines_of_a_query_that_was_cut_are_for_who_may_read_all_of_its_parts(
    world: World, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.operations.estate_store import estate_loader, readable

    record = running(world.carla, world.city, document("traffic"), world.ana)
    shared = ids_of(record)["parse"]
    jams = running(world.carla, world.city, document("jams", window=20), world.ana)
    places = load_estate().places
    parts = {places[shared][0], places[ids_of(jams)["average"]][0]}
    assert len(parts) == 2
    FragmentRow.objects.filter(pk__in=parts).update(inherits=["f0-9"])
    monkeypatch.setattr(estate_loader, "_kept_estate", (None, Estate()))
    nodes.lines["n1"] = []

    def former_is_read() -> bool:
        nodes.orders.clear()
        dataflow_log(viewer_of(world.carla), record.pk, LogQuestion(), task="parse")
        return "f0-9" in nodes.orders[0].queries

    assert former_is_read()
    foreign = set(ids_of(jams).values()) - {shared, ids_of(record)["sense"]}
    monkeypatch.setattr(readable, "is_told_to_all", lambda estate, task: task not in foreign)
    monkeypatch.setattr(readable, "is_readable", lambda viewer, task: False)
    assert not former_is_read(), "it also worked at what another team's credential reads"


def test_a_processs_log_is_for_administrators(world: World, nodes: Nodes) -> None:
    nodes.lines["n1"] = [LogLine(1, INFO, "0", "whosever", "f-other")]
    for user in (world.carla, world.dev):
        with pytest.raises(PermissionDenied):
            process_log(viewer_of(user), "n1", "0", LogQuestion())
    root = viewer_of(world.root)
    assert [line.text for line in process_log(root, "n1", "0", LogQuestion()).lines] == ["whosever"]
    assert nodes.orders[-1].process == "0"
    for node, process in (("n1", "77"), ("n9", "0"), ("n1", "../agent")):
        with pytest.raises(NotFound):
            process_log(root, node, process, LogQuestion())


def test_the_api_goes_on_from_an_answer_and_refuses_what_is_no_level(
    world: World, dataflow: Any, nodes: Nodes
) -> None:
    nodes.lines["n1"] = [LogLine(1_000, INFO, "connectors", "source cannot begin", "", ids_of(dataflow)["sense"])]
    _, token = create_token(actor=world.carla, name="ci")
    client = Client(headers={"authorization": f"Bearer {token}"})
    address = f"/api/dataflows/{dataflow.pk}/logs"
    answer = client.get(address, {"search": "begin", "task": "sense"}).json()
    assert answer == {
        "lines": [{"at_ms": 1_000, "level": INFO, "node": "n1", "process": "connectors", "query": "", "task": "sense",
                   "text": "source cannot begin"}], "after": "n1=ab:1", "left_out": 0, "missing": []}
    client.get(address, {"after": answer["after"]})
    assert [order.after for order in nodes.orders] == ["", "ab:1"]
    for wrong in ({"level": "loud"}, {"count": 0}, {"search": "x" * 300}):
        assert client.get(address, wrong).status_code == 422


def test_the_page_follows_the_lines_and_its_form_and_file_ask_for_the_same(
    world: World, dataflow: Any, nodes: Nodes
) -> None:
    client = Client()
    client.force_login(world.carla)
    parameters = {"task": "parse", "level": "warning", "search": "a <b>&"}
    page = Markup(client.get(reverse("dataflow_log", args=[dataflow.pk]), parameters).text)
    [lines] = page.values("data-output")
    assert "output-list" in page.values("id"), "what scripts look for"
    nodes.lines["n1"] = [LogLine(1_000, ERROR, "0", "<script>1</script>", "f1")]
    shown = client.get(lines).text
    assert Markup(shown).values("data-line") == [ERROR] and "<script>" not in shown
    assert (nodes.orders[-1].level, nodes.orders[-1].search, len(nodes.orders[-1].tasks)) == ("warning", "a <b>&", 1)
    file = client.get(reverse("dataflow_log_file", args=[dataflow.pk]), parameters)
    assert file["Content-Type"].startswith("text/plain") and "attachment" in file["Content-Disposition"]
    assert b"".join(file.streaming_content).decode() == \
        "1970-01-01T00:00:01.000+00:00 error   n1/0 f1: <script>1</script>\n"
    nodes.lines.clear()
    assert Markup(client.get(lines).text).having("data-missing")


def test_the_panel_of_a_task_shows_its_log_to_its_team_alone(world: World, dataflow: Any, nodes: Nodes) -> None:
    address, lines = reverse("dataflow_task", args=[dataflow.pk, "parse"]), reverse(
        "dataflow_log_lines", args=[dataflow.pk])
    for user, is_shown in ((world.carla, True), (world.mo, False)):
        client = Client()
        client.force_login(user)
        page = Markup(client.get(address).text)
        assert any(value.startswith(lines) for value in page.values("data-output")) is is_shown


def test_the_command_prints_lines_and_says_who_did_not_answer(world: World, dataflow: Any, nodes: Nodes) -> None:
    nodes.lines["n1"] = [LogLine(1_000, INFO, "0", "heard", "f1", ids_of(dataflow)["parse"])]
    out, err = io.StringIO(), io.StringIO()
    call_command("logs", "traffic", "--task", "parse", stdout=out, stderr=err)
    assert out.getvalue() == "1970-01-01T00:00:01.000+00:00 info    n1/0 parse: heard\n" and not err.getvalue()
    call_command("logs", "--process", "n1/0", stdout=out, stderr=err)
    assert nodes.orders[-1].process == "0"
    nodes.lines.clear()
    call_command("logs", "traffic", stdout=out, stderr=err)
    assert "n1 did not answer" in err.getvalue()
    for wrong in ([], ["traffic", "--process", "n1/0"], ["--process", "n9/0"], ["traffic", "--as", "mo"]):
        with pytest.raises(CommandError):
            call_command("logs", *wrong, stdout=out, stderr=err)


def test_the_command_follows_what_comes(
    world: World, dataflow: Any, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.commands.management.commands import logs

    nodes.lines["n1"] = [LogLine(1_000, INFO, "0", "first")]

    def later(_: float) -> None:
        if len(nodes.orders) == 2:
            raise KeyboardInterrupt
        nodes.lines["n1"] = [replace(nodes.lines["n1"][0], text="second")]

    monkeypatch.setattr(logs.time, "sleep", later)
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        call_command("logs", "traffic", "--follow", stdout=out)
    assert [line.rpartition(": ")[2] for line in out.getvalue().splitlines()] == ["first", "second"]
    assert [order.after for order in nodes.orders] == ["", "ab:1"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_no_text_begins_a_line_of_a_file_as_another_process_would(end: str):
    forged = "2026-05-01T00:00:00.000+00:00 ERROR   n2/1 f9-0: all is lost"
    line = ReadLogLine(0, INFO, "n1", "0", "f1-0", "", f"first{end}{forged}")
    [first, second] = "".join(as_text(ReadLog([line], "", 0, []))).splitlines()
    assert first.endswith("f1-0: first") and second == f"    {forged}"
