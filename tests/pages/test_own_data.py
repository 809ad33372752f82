"""The way to one's own data: four steps that keep what was answered, and end in a document that is sound."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import reverse

from dashboard.explorer import source_looks
from dashboard.pages.own_data_answers import KEY
from dashboard.teams.models import Secret
from dashboard.teams.services import set_secret
from scheduler.contracts.looks import ColumnProposal, ProposedColumn
from tests.cases import each
from tests.dashboard.building import World
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound

pytestmark = pytest.mark.django_db
PASSWORD = "a-password-of-the-city"
PROPOSAL = ColumnProposal(
    (ProposedColumn("room", "string"), ProposedColumn("celsius", "double", True),
     ProposedColumn("place", "string"), ProposedColumn("place_floor", "bigint", False, ("place", "floor")),
     ProposedColumn("at", "timestamp")),
    "at", "ms", ("at",), {"a b": "its name has other characters than letters, digits and _"})
SOURCE = {"type": "mqtt", "dataflow": "Rooms", "p.server": "mqtt.example.org", "p.topics": "rooms/+, halls"}


@pytest.fixture(autouse=True)
def _hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org")
    monkeypatch.setenv("WEIR_SINK_HOSTS", "mqtt.example.org")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Looks that are over at once; ``begun`` is what was ordered, ``seen`` what comes of them."""
    held: dict[str, Any] = {"begun": [], "seen": source_looks.Look(
        "a" * 32, "done", True, types={"room": "string"}, events=[{"_seq": 0, "room": "7"}], proposal=PROPOSAL)}

    def begin(**order: Any) -> str:
        held["begun"].append(order)
        return "a" * 32

    monkeypatch.setattr(source_looks, "begin_look", begin)
    monkeypatch.setattr(source_looks, "look", lambda viewer, look_id: held["seen"])
    return held


def at(step: str, query: str = "") -> str:
    return reverse("own_data_step", args=[step]) + query


def send(client: Client, step: str, answers: dict[str, Any], go: str = "next") -> Any:
    return client.post(at(step), {**answers, "go": go})


def columns(**more: Any) -> dict[str, Any]:
    """The second step's form as the page shows it."""
    return {"name": ["room", "celsius", "place", "place_floor", "at", "", ""],
            "type": ["string", "double", "string", "bigint", "timestamp", "string", "string"],
            "path": ["", "", "", "place.floor", "", "", ""], "take": ["0", "1", "3", "4"], "time_field": "at",
            "time_unit": "ms", "time_zone": "Europe/Berlin", **more}


def test_four_steps_end_in_the_editor_with_a_sound_document(client_of: ClientOf, looks: dict[str, Any]) -> None:
    client = client_of("carla")
    assert_sound(client.get(reverse("own_data")), "no kind yet")
    page = client.get(at("source", "?type=mqtt"))
    assert_sound(page, "mqtt")
    assert page.context["fields"] and not any(field.name == "columns" for field in page.context["fields"])
    assert send(client, "source", SOURCE).headers["Location"] == at("columns")
    [look] = looks["begun"]
    assert (look["proposes"], look["task_id"], look["team"].slug) == (True, "source", "city")
    page = client.get(at("columns"))
    assert_sound(page, "columns")
    answers = page.context["answers"]
    assert [(column.name, column.taken) for column in answers.columns] == [
        ("room", True), ("celsius", True), ("place", False), ("place_floor", True), ("at", True)]
    assert answers.time["time_field"] == "at" and list(answers.left_out) == ["a b"]
    assert send(client, "columns", columns()).headers["Location"] == at("work")
    assert_sound(client.get(at("work")), "work")
    average = {"work": "average", "average_column": "celsius", "by": "room", "size": "5 min"}
    assert send(client, "work", average).headers["Location"] == at("target")
    page = client.get(at("target"))
    assert_sound(page, "target")
    assert next(field.value for field in page.context["fields"] if field.name == "name") == "rooms"
    done = send(client, "target", {"to": "output", "p.name": "rooms"})
    assert done.headers["Location"] == f"{reverse('dataflow_new')}?own=1"
    editor = client.get(done.headers["Location"])
    assert_sound(editor, "editor")
    document = yaml.safe_load(editor.context["text"])
    assert document["name"] == "Rooms" and editor.context["chosen_team"] == "city"
    source, fields, work, out = document["tasks"]
    assert source["config"] == {
        "server": "mqtt.example.org", "topics": ["rooms/+", "halls"],
        "columns": ["room", "celsius:double", "at:timestamp", "place"], "time_field": "at",
        "time_zone": "Europe/Berlin"}
    assert "AS place_floor" in fields["config"]["query"] and work["type"] == "window"
    assert out == {"id": "out", "type": "output", "config": {"name": "rooms"}}
    assert client.get(done.headers["Location"]).context["text"] == editor.context["text"], "a reload loses nothing"


@pytest.mark.parametrize(("answers", "field"), [
    ({"p.server": ""}, "server"), ({"p.server": "elsewhere.example.org"}, "server"), ({"p.topics": "a/#/b"}, "topics"),
    ({"p.qos": "7"}, "qos"), ({"p.version": "4"}, "version")])
def test_what_is_wrong_with_a_source_stands_at_its_field(
    client_of: ClientOf, looks: dict[str, Any], answers: dict[str, str], field: str
) -> None:
    client = client_of("carla")
    page = send(client, "source", SOURCE | answers)
    assert page.status_code == 422 and looks["begun"] == []
    assert_sound(page, field)
    wrong = {field.name: field.error for field in page.context["fields"] if field.error}
    assert list(wrong) == [field] and page.context["others"] == []
    shown = {field.name: field.value for field in client.get(at("source")).context["fields"]}
    assert shown[field] == ((SOURCE | answers).get(f"p.{field}")), "what was filled in stays, also on a reload"


@each("step, answers, answer", [
    ("columns", columns(take=[]), "columns"), ("columns", columns(take=["0"]), "time_field"),
    ("columns", columns(name=["a b", "celsius", "place", "place_floor", "at"]), "columns"),
    ("work", {"work": "filter", "filter_column": "celsius", "comparison": ">", "filter_value": "warm"}, "filter_value"),
    ("work", {"work": "average", "average_column": "room"}, "average_column"),
    ("work", {"work": "average", "average_column": "celsius", "size": "long"}, "size")])
def test_what_is_wrong_with_an_answer_stands_at_it(
    client_of: ClientOf, looks: dict[str, Any], step: str, answers: dict[str, Any], answer: str
) -> None:
    client = client_of("carla")
    send(client, "source", SOURCE)
    client.get(at("columns"))
    send(client, "columns", columns())
    page = send(client, step, answers)
    assert page.status_code == 422 and list(page.context["errors"]) == [answer] and page.context["others"] == []
    assert_sound(page, answer)
    assert page.context["errors"][answer] in page.content.decode().replace("&#x27;", "'")


def test_one_goes_back_without_losing_answers_and_cancels_all_of_them(
    client_of: ClientOf, looks: dict[str, Any]
) -> None:
    client = client_of("carla")
    assert client.get(at("work")).headers["Location"] == reverse("own_data"), "there is no source yet"
    send(client, "source", SOURCE)
    client.get(at("columns"))
    back = send(client, "columns", columns(take=["0"], time_field=""), go="back")
    assert back.headers["Location"] == at("source")
    assert [column.taken for column in client.get(at("columns")).context["answers"].columns] == [
        True, False, False, False, False]
    assert send(client, "source", SOURCE).headers["Location"] == at("columns")
    assert len(looks["begun"]) == 1, "the same source keeps its columns"
    assert send(client, "source", SOURCE | {"p.topics": "other"}).headers["Location"] == at("columns")
    assert len(looks["begun"]) == 2, "another one is looked at anew"
    assert send(client, "columns", {}, go="cancel").headers["Location"] == reverse("dataflow_new")
    assert KEY not in client.session


def test_columns_that_a_look_is_to_propose_are_awaited_and_one_may_go_on_without(
    client_of: ClientOf, looks: dict[str, Any]
) -> None:
    looks["seen"] = source_looks.Look("a" * 32, "looking", False)
    client = client_of("carla")
    send(client, "source", SOURCE)
    page = client.get(at("columns"))
    assert_sound(page, "awaited")
    assert "columns-awaited" in Markup(page.text).notes and not Markup(page.text).having("data-column-row")
    assert send(client, "columns", {}).headers["Location"] == at("work")
    assert send(client, "work", {"work": "as_is"}).headers["Location"] == at("target")
    assert send(client, "target", {"to": "output", "p.name": "rooms"}).headers["Location"].endswith("?own=1")


def test_a_look_that_failed_says_why_and_columns_can_be_written(client_of: ClientOf, looks: dict[str, Any]) -> None:
    looks["seen"] = source_looks.Look("a" * 32, "failed", True, "source_away", "It is away.", "Look again.")
    client = client_of("carla")
    send(client, "source", SOURCE)
    page = client.get(at("columns"))
    assert_sound(page, "failed")
    assert 'data-error="source_away"' in page.content.decode()
    written = {"name": ["room", ""], "type": ["string", "string"], "path": ["", ""], "take": ["0"]}
    assert send(client, "columns", written).headers["Location"] == at("work")
    assert [column.name for column in client.get(at("work")).context["columns"]] == ["room"]
    send(client, "columns", written, go="look")
    assert looks["begun"][-1]["proposes"] is False and '"columns": ["room"]' in looks["begun"][-1]["text"]


def test_a_value_that_an_admin_writes_is_kept_as_a_secret_and_stands_nowhere_else(
    world: World, client_of: ClientOf, looks: dict[str, Any]
) -> None:
    client = client_of("dev")
    answers = SOURCE | {"p.username": "reader", "new.password.name": "mqtt", "new.password.value": PASSWORD}
    assert client.post(at("source", "?team=city"), answers).headers["Location"] == at("columns")
    assert Secret.objects.get(team=world.city, name="mqtt")
    assert '"password": {"secret": "mqtt"}' in looks["begun"][-1]["text"]
    assert PASSWORD not in str(dict(client.session)) and PASSWORD not in looks["begun"][-1]["text"]
    again = client.post(at("source", "?team=city"), answers)
    assert again.status_code == 422, "one that is there is not replaced by the way"
    assert PASSWORD not in again.content.decode()


def test_who_is_no_admin_chooses_among_kept_secrets_and_keeps_none(
    world: World, client_of: ClientOf, looks: dict[str, Any]
) -> None:
    set_secret(actor=world.dev, team=world.city, name="kept", value=PASSWORD)
    client = client_of("carla")
    answers = SOURCE | {"p.username": "reader", "new.password.name": "mqtt", "new.password.value": PASSWORD}
    assert send(client, "source", answers).status_code == 422 and Secret.objects.count() == 1
    page = client.get(at("source"))
    assert next(field.choices for field in page.context["fields"] if field.name == "password") == ("kept",)
    assert send(client, "source", SOURCE | {"p.username": "reader", "p.password": "kept"}).status_code == 302


def test_columns_are_proposed_from_an_example_where_a_source_shows_nothing(
    world: World, client_of: ClientOf, looks: dict[str, Any]
) -> None:
    set_secret(actor=world.dev, team=world.city, name="token", value=PASSWORD)
    client = client_of("carla")
    send(client, "source", {"type": "http_ingest", "dataflow": "Posts", "p.name": "meters", "p.token": "token"})
    assert looks["begun"] == []
    page = client.get(at("columns"))
    assert_sound(page, "example")
    send(client, "columns", {"example": '[{"meter": "m1", "kwh": 1.5}, {"meter": "m2"}]'}, go="example")
    assert [(column.name, column.type, column.may_lack) for column in client.get(
        at("columns")).context["answers"].columns] == [("meter", "string", False), ("kwh", "double", True)]
    send(client, "columns", {"example": "none"}, go="example")
    assert 'data-flash="not_found"' in client.get(at("columns")).content.decode()


@pytest.mark.parametrize("name", ["mqtt", "kafka", "postgresql", "files", "http_ingest", "spark_source"])
def test_every_live_source_has_a_form(client_of: ClientOf, name: str) -> None:
    page = client_of("carla").get(at("source", f"?type={name}"))
    assert page.context["chosen"].name == name
    assert_sound(page, name)


@pytest.mark.parametrize("name", ["output", "to_postgresql", "to_delta", "to_s3", "to_kafka", "to_mqtt"])
def test_every_target_has_a_form_and_says_what_is_missing(
    client_of: ClientOf, looks: dict[str, Any], name: str
) -> None:
    client = client_of("carla")
    send(client, "source", SOURCE)
    page = client.get(at("target", f"?to={name}"))
    assert_sound(page, name)
    sent = send(client, "target", {"to": name})
    assert sent.status_code == 422 and (any(field.error for field in sent.context["fields"]) or sent.context["others"])
    assert_sound(sent, name)


def test_who_may_not_submit_is_told_so(client_of: ClientOf) -> None:
    page = client_of("vera").get(reverse("own_data"))
    assert 'data-note="may-not-submit"' in page.content.decode()
    assert_sound(page, "vera")
    assert client_of("vera").post(at("source"), SOURCE).status_code == 200
