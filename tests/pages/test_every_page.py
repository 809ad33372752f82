"""Every page: answers, has sound markup without inline style or behaviour, and asks for a log-in."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.approvals.services import defragment_dataflow, pause_dataflow, prepare_proposal
from dashboard.catalog.document_checks import check_document
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.pages.urls import urlpatterns
from dashboard.pages.views.guides import GUIDES
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, planned, removal_planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound

PLAIN = ["estate", "dataflows", "dataflow_new", "own_data", "proposals", "task_types", "bills", "audit", "teams",
         "password_change", "estate_graph", "overlap", "fragmentation", "slots", "alerts", "alert_rules",
         "notifications", "controllers", "estate_time", "problems", "wall", "pacing", "tenancy"]
FILTERED = ["/dataflows/?q=none&team=city&status=running", "/proposals/?for=me", "/proposals/?status=open",
            "/alerts/?show=all",
            "/estate/overlap?q=none&by=share", "/estate/overlap?team=city", "/estate/graph?q=traffic&page=7",
            "/bills/?period=month", "/bills/?period=custom&from=2026-01-01&to=2026-01-31",
            "/controllers/defragmentation/", "/controllers/remeasuring/", "/controllers/?phase=kept",
            "/controllers/defragmentation/?phase=kept&team=city", "/controllers/defragmentation/dry-run?team=&hours=1",
            "/controllers/remeasuring/dry-run?team=&hours=6", "/audit/?q=zz", "/task-types/?q=filter",
            "/task-types/?q=nothing-like-it", "/estate/time?range=7d&over=week",
            "/estate/time?from=2026-11-24T10:00&to=<b>", "/estate/slots/n1/0", "/estate/nodes/n1",
            "/task-types/?family=transform-parse"]


@pytest.fixture
def addresses(world: World) -> list[str]:
    """Every page of an estate in which one dataflow runs, one is in review, and one is to be removed."""
    traffic = running(world.carla, world.city, document("traffic", description="Flow of cars"), world.ana)
    cars = running(world.carla, world.city, document("cars", window=15), world.ana)
    parse = cars.uses.get(task_id="parse")
    jams = planned(world.mo, world.mobility, document("jams", window=20))
    removal = removal_planned(world.carla, traffic)
    pause = prepare_proposal(proposal_id=pause_dataflow(actor=world.carla, dataflow_id=cars.pk).pk)
    step = prepare_proposal(proposal_id=defragment_dataflow(actor=world.carla, dataflow_id=cars.pk).pk)
    alert_of(world.city)
    estate = load_estate()
    stream = next((task.parents[0], task.id) for task in estate.tasks.values() if task.parents)
    return [
        reverse("query", args=[estate.places[parse.running_task_id][0]]), reverse("stream", args=stream),
        *(reverse(name) for name in PLAIN), *(reverse("help_guide", args=[guide.slug]) for guide in GUIDES), *FILTERED,
        reverse("dataflow", args=[traffic.pk]), reverse("dataflow", args=[jams.dataflow_id]),
        reverse("proposal", args=[jams.pk]), reverse("proposal", args=[removal.pk]),
        reverse("proposal", args=[pause.pk]), reverse("proposal", args=[step.pk]),
        f"{reverse('dataflow_new')}?again={traffic.pk}", reverse("savepoints", args=[traffic.pk]),
        f"{reverse('estate_graph')}?dataflow={traffic.pk}",
        reverse("simulate", args=[cars.pk]), reverse("simulate", args=[jams.dataflow_id]),
        reverse("proposal_replay", args=[jams.pk]),
        reverse("running_task", args=[parse.running_task_id]), reverse("overlap_pair", args=[traffic.pk, cars.pk]),
    ]


@pytest.mark.parametrize("names", [
    ("carla",),
    # Who may do everything, who has no team, an approver, a viewer: tests/dashboard/test_routes.py has who is let in.
    pytest.param(("root", "outsider", "ben", "vera"), marks=pytest.mark.long)], ids=",".join)
def test_every_page_is_sound(names: tuple[str, ...], addresses: list[str], client_of: ClientOf) -> None:
    for name in names:
        client = client_of(name)
        for address in addresses:
            response = client.get(address)
            assert response.status_code == 200, (name, address)
            assert_sound(response, f"{name}: {address}")


def test_pages_of_an_empty_installation_say_what_to_do_next(client_of: ClientOf) -> None:
    client = client_of("carla")
    for address, note, invitation in [
        ("/", "nothing-runs", "/dataflows/new"), ("/dataflows/", "no-dataflow", "/dataflows/new"),
        ("/proposals/", "no-proposal", "/dataflows/new"), ("/proposals/?for=me", "nothing-for-me", "/proposals/"),
        ("/estate/graph", "nothing-runs", "/dataflows/new"), ("/estate/overlap", "nothing-runs", "/dataflows/new"),
    ]:
        response = client.get(address)
        page = Markup(response.text)
        assert note in page.notes and page.links(invitation), address
        assert_sound(response, address)


def test_nothing_is_called_well_that_nothing_is_heard_of(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    page = Markup(client_of("vera").get("/").text)  # the tests' pages have no broker
    assert "not-live" in page.notes
    assert page.values("data-health") == ["unknown"]


def test_the_document_that_help_shows_is_valid(client_of: ClientOf) -> None:
    shown = Markup(client_of("vera").get("/help/documents").text).every("pre")[0]
    checked = check_document("".join(shown.fragments), format="yaml")
    assert checked.problems == ()
    assert len(checked.dataflow.tasks) == 5


def test_the_document_of_the_readme_is_valid_and_keeps_what_it_says() -> None:
    """Its description promises temperatures alone."""
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    document = textwrap.dedent(re.search(r"^   ```yaml\n(.*?)^   ```", text, re.DOTALL | re.MULTILINE)[1])
    checked = check_document(document, format="yaml")
    assert checked.problems == ()
    configs = {task.id: task.config for task in checked.dataflow.tasks}
    assert "obs = 'temperature'" in configs["warm"]["query"]


def test_the_log_in_page_is_sound(db) -> None:
    response = Client().get("/login/")
    assert response.status_code == 200
    assert_sound(response, "/login/")


def test_nobody_gets_anything_without_a_log_in(db) -> None:
    kinds = {"uuid": "00000000-0000-4000-8000-000000000000", "int": "1", "slug": "x", "path": "x", "str": "x"}
    for pattern in urlpatterns:
        path = "/" + re.sub(r"<(\w+):\w+>", lambda match: kinds[match[1]], str(pattern.pattern))
        for response in (Client().get(path), Client().post(path)) if pattern.name != "login" else ():
            if response.status_code == 302:
                assert response.url.startswith("/login/"), path
            else:  # or nobody signs on by that provider, who is none
                none = {404, 405} if pattern.name.startswith("openid_connect") else {405}
                assert response.status_code in none, path


@pytest.mark.parametrize("path", ["/nothing", "/dataflows/00000000-0000-4000-8000-000000000000/",
                                  "/proposals/00000000-0000-4000-8000-000000000000/", "/help/nothing",
                                  "/dataflows/samples/nothing", "/estate/tasks/nothing",
                                  "/estate/graph?dataflow=nothing"])
def test_what_is_not_there_is_said_on_a_page_of_the_same_look(path: str, client_of: ClientOf) -> None:
    response = client_of("carla").get(path)
    assert response.status_code == 404
    [error] = Markup(response.text).having("data-error")
    assert (error.attributes["data-error"], error.attributes["data-http"]) == ("not_found", "404")
    assert "css/tokens.css" in response.text
    assert_sound(response, path)


def test_a_form_without_its_token_is_refused_on_a_page_of_the_same_look(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    response = client.post("/dataflows/new", {"text": "name: x", "team": "city"})
    assert response.status_code == 403
    assert Markup(response.text).values("data-error") == ["permission_denied"]
    assert_sound(response, "csrf")
