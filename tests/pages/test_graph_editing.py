"""The document edited from its graph: forms of declared parameters, and changes that leave the rest of the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.urls import reverse

from dashboard import jobs
from dashboard.pages.parameter_forms import changes_of, texts_of
from dashboard.teams.services import set_secret
from scheduler.model.task_types import Parameter, TaskType
from tests.dashboard.building import World, dynamic
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

pytestmark = pytest.mark.django_db
TEXT = """# Air 🌬 of the city
name: Air
tasks:
  - {id: sense, type: urban_sensing, config: {seed: 7}}   # our sensors
  - {id: parse, type: senml_parse}
  - id: mean
    type: block_average
    config:
      window: 10   # readings
  - {id: out, type: output, config: {name: air}}
streams:
  - {from: sense, to: parse}
  - {from: parse, to: mean}
  - {from: mean, to: out}
rates: {sense: 50}
"""


class GraphUser:
    """Somebody who edits a text from its graph, as the editor does it."""

    def __init__(self, client: Any, text: str, format: str = "yaml") -> None:
        self.client, self.text, self.format = client, text, format

    def ask(self, edit: str, task: str = "", **more: str) -> Any:
        return self.client.post(reverse("graph_edit", args=[edit]), {
            "team": "city", "text": self.text.replace("\n", "\r\n"), "format": self.format, "task": task, **more},
            headers={"accept": "application/json"})

    def form(self, edit: str, task: str = "", **more: str) -> Markup:
        response = self.ask(edit, task, **more)
        assert response.status_code == 200, response.text
        return Markup(response.json()["html"])

    def do(self, edit: str, task: str = "", **more: str) -> dict[str, Any]:
        """Send a form; the text is the changed one from then on."""
        response = self.ask(edit, task, apply="1", **more)
        assert response.status_code == 200, response.text
        answer = response.json()
        units = self.text.encode("utf-16-le")
        for change in reversed(answer["changes"]):
            units = units[:2 * change["from"]] + change["insert"].encode("utf-16-le") + units[2 * change["to"]:]
        self.text = units.decode("utf-16-le")
        return answer

    def refused(self, edit: str, task: str = "", **more: str) -> Any:
        response = self.ask(edit, task, apply="1", **more)
        assert response.status_code == 422, response.text
        return response.json()


@pytest.fixture
def carla(client_of: ClientOf) -> GraphUser:
    return GraphUser(client_of("carla"), TEXT)


def test_a_form_shows_what_the_text_says_and_changes_that_alone(carla: GraphUser) -> None:
    html = carla.ask("configure", "mean").json()["html"]
    assert 'name="p.window" value="10"' in html and "Configure mean" in html
    answer = carla.do("configure", "mean", **{"p.window": "20"})
    assert answer["task"] == "mean"
    assert carla.text == TEXT.replace("window: 10", "window: 20")


def test_what_is_wrong_stands_at_its_field_and_changes_nothing(carla: GraphUser) -> None:
    answer = carla.refused("configure", "mean", **{"p.window": "many"})
    form = Markup(answer["html"])
    assert form.values("aria-invalid") == ["true"] and "changes" not in answer
    answer = carla.refused("configure", "out", **{"p.name": ""})
    assert "This is needed." in answer["html"]
    assert "above 0" in carla.refused("configure", "sense", **{"p.rate_per_s": "-1"})["html"]


def test_a_rate_is_a_parameter_of_a_source(carla: GraphUser) -> None:
    carla.do("configure", "sense", **{
        **{f"p.{name}": text for name, text in texts_of(jobs.task_types()["urban_sensing"], {"seed": 7}).items()},
        "p.rate_per_s": "80"})
    assert carla.text == TEXT.replace("sense: 50", "sense: 80")


def test_a_dataflow_comes_from_nothing_and_is_valid(client_of: ClientOf) -> None:
    someone = GraphUser(client_of("carla"), "")
    someone.form("add")
    assert "urban_sensing" in someone.form("add").values("value")
    sensors = {f"p.{name}": text for name, text in texts_of(jobs.task_types()["urban_sensing"], {}).items()}
    assert someone.do("add", type="urban_sensing", id="", **sensors)["task"] == "urban_sensing"
    someone.do("add", "urban_sensing", type="senml_parse", id="parse", **{
        f"p.{name}": text for name, text in texts_of(jobs.task_types()["senml_parse"], {}).items()})
    answer = someone.do("add", "parse", type="output", id="out", **{"p.name": "first", "p.keep_events": "1000"})
    assert someone.text == """name: New dataflow
tasks:
  - {id: urban_sensing, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: out, type: output, config: {name: first}}
streams:
  - {from: urban_sensing, to: parse}
  - {from: parse, to: out}
"""
    assert [task["id"] for task in answer["graph"]["tasks"]] == ["urban_sensing", "parse", "out"]
    checked = someone.client.post(
        "/api/validate", {"text": someone.text, "format": "yaml"}, content_type="application/json").json()
    assert checked["problems"] == []


def test_a_task_comes_between_two_and_goes_again(carla: GraphUser) -> None:
    assert carla.form("add", "parse", type="range_filter").values("aria-invalid") == []
    carla.do("add", "parse", type="distinct_count", id="thin", target="mean", **{
        f"p.{name}": text for name, text in texts_of(jobs.task_types()["distinct_count"], {}).items()})
    streams = yaml.safe_load(carla.text)["streams"]
    assert streams == [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "thin"},
                       {"from": "thin", "to": "mean"}, {"from": "mean", "to": "out"}]
    answer = carla.do("remove", "thin")
    assert carla.text == TEXT and answer["task"] == "parse" and "Ctrl+Z" in answer["told"]


def test_a_latency_limit_that_loses_its_path_is_told(client_of: ClientOf) -> None:
    limit = "latency: {limit: 2 s, along: [mean, out]}\n"
    someone = GraphUser(client_of("carla"), TEXT + limit)
    assert "atency" in someone.do("join", "mean", remove="out")["told"]
    assert someone.text == TEXT.replace("  - {from: mean, to: out}\n", "")


def test_tasks_are_joined_and_renamed(carla: GraphUser) -> None:
    form = carla.form("join", "parse")
    assert "out" in form.values("value") and "sense" not in form.values("value")
    carla.do("join", "parse", target="out")
    assert carla.text == TEXT.replace("rates:", "  - {from: parse, to: out}\nrates:")
    carla.do("join", "parse", remove="out")
    assert carla.text == TEXT
    assert carla.refused("join", "parse", target="sense")["html"]
    assert "Another task" in carla.refused("rename", "sense", id="parse")["html"]
    carla.do("rename", "sense", id="sensors")
    assert carla.text == TEXT.replace("{id: sense", "{id: sensors").replace("from: sense,", "from: sensors,").replace(
        "{sense: 50", "{sensors: 50")


@pytest.mark.parametrize(("edit", "task", "text", "format"), [
    ("configure", "work", dynamic("ways"), "json"),
    ("remove", "again.1.halve", TEXT.replace("{id: parse, type: senml_parse}", "{id: again, loop: {}}"), "yaml"),
    ("configure", "gone", TEXT, "yaml"),
    ("add", "out", TEXT, "yaml"),
    ("remove", "parse", "spouts: []\nbolts: []\n", "yaml"),
    ("remove", "parse", TEXT.replace("id: mean", "id: parse"), "yaml"),
    ("remove", "parse", "tasks: [", "yaml"),
    ("remove", "parse", "- parse", "yaml"),
    ("remove", "parse", "tasks: [{id: 3}]", "yaml"),
    ("remove", "parse", TEXT + f"# {'x' * 300_000}", "yaml"),
    ("configure", "parse", TEXT.replace("senml_parse", "nothing_here"), "yaml"),
], ids=["alternates", "loop", "gone", "behind-sink", "flux", "twice", "unreadable", "list", "no-id", "long", "no-type"])
def test_what_cannot_be_edited_is_refused_with_a_remedy(
    client_of: ClientOf, edit: str, task: str, text: str, format: str
) -> None:
    answer = GraphUser(client_of("carla"), text, format).refused(edit, task)
    assert answer["code"] == "graph_not_editable" and answer["message"] and answer["remedy"]


def test_only_who_may_submit_for_a_team_edits_for_it(client_of: ClientOf) -> None:
    for name in ("mo", "vera"):
        assert GraphUser(client_of(name), TEXT).ask("configure", "mean").status_code == 404
        assert client_of(name).post(reverse("document_graph"), {"team": "city", "text": TEXT}).status_code == 404


def test_a_graph_is_drawn_of_a_text_with_problems(client_of: ClientOf) -> None:
    text = TEXT.replace("type: block_average", "type: nothing").replace("mean, to: out}", "mean, to: parse}")
    graph = client_of("carla").post(
        reverse("document_graph"), {"team": "city", "text": text, "format": "yaml"}).json()["graph"]
    assert [(task["id"], task["type"], task["kind"]) for task in graph["tasks"]][2:] == [
        ("mean", "nothing", ""), ("out", "output", "sink")]
    assert [stream["id"] for stream in graph["streams"]] == []  # what goes round has no place from left to right


def test_a_secret_is_chosen_by_its_name(world: World, client_of: ClientOf) -> None:
    set_secret(actor=world.dev, team=world.city, name="broker", value="a-password-of-the-city")
    text = TEXT.replace("{id: sense, type: urban_sensing, config: {seed: 7}}",
                        "{id: sense, type: mqtt, config: {server: s, password: {secret: old}}}")
    someone = GraphUser(client_of("carla"), text)
    form = someone.form("configure", "sense")
    assert {"broker", "old"} <= set(form.values("value"))


def test_every_type_has_a_form_that_changes_nothing_by_itself() -> None:
    for task_type in jobs.task_types().values():
        config: dict[str, Any] = {
            parameter.name: parameter.default for parameter in task_type.parameters if parameter.default is not None}
        assert changes_of(task_type, config, texts_of(task_type, config))[0] == {}, task_type.name
        missing = changes_of(task_type, {}, texts_of(task_type, {}))
        assert missing[0] == {}, task_type.name
        assert set(missing[1]) == {field.name for field in task_type.parameters if field.required and not field.default}


def test_values_come_back_as_they_were_written() -> None:
    given = {"ranges": {"temperature": [-30, 60]}}
    kind = jobs.task_types()["range_filter"]
    assert json.loads(texts_of(kind, given)["ranges"]) == given["ranges"]
    assert changes_of(kind, {}, texts_of(kind, given)) == (given, {})


@pytest.mark.parametrize("kind", ["list", "object"])
def test_a_value_that_is_nested_too_deeply_stays_text(kind: str) -> None:
    """The check of the document says what is wrong with it; before, the form failed."""
    declared = TaskType(name="t", kind="transform", family="operator", doc="", build="m:f", effects=(), parameters=(
        Parameter("values", kind, ""),))
    changes, _ = changes_of(declared, {}, {"values": "[" * 10_000})
    assert changes in ({"values": ["[" * 10_000]}, {"values": "[" * 10_000})
