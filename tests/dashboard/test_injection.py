"""Text of people in pages and queries, what is read back as code, and what is installed: nothing becomes a program."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest
from django.conf import settings
from django.test import Client

from dashboard import queue
from dashboard.config.environment import ROOT
from tests.dashboard.building import World, document, planned, running

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
HOSTILE = ["' OR 1=1 --", "'; DROP TABLE teams_team; --", "%' UNION SELECT password FROM teams_user --", "\\", "%", "_"]


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    return client


def test_what_people_write_is_text_on_every_page_that_shows_it(world: World, client: Client):
    record = running(world.carla, world.city, document("traffic", description=SCRIPT), world.ana)
    proposal = planned(world.carla, world.city, document("later", window=7, description=SCRIPT))
    pages = [
        "/", "/dataflows/", f"/dataflows/?search={SCRIPT}", f"/dataflows/{record.pk}/", f"/proposals/{proposal.pk}/",
        f"/find?q={SCRIPT}", "/audit/", f"/audit/?q={SCRIPT}", "/teams/", "/proposals/"]
    answered = [(path, client.get(path, follow=True)) for path in pages]
    shown = [path for path, answer in answered if answer.status_code == 200]
    assert len(shown) >= 6, [(path, answer.status_code) for path, answer in answered]
    assert any("&lt;script&gt;alert" in answer.content.decode() for _, answer in answered)
    for path, answer in answered:
        text = answer.content.decode()
        assert "<script>alert" not in text and "<img src=x" not in text, path


def test_what_is_searched_for_is_a_value_and_no_query(world: World, client: Client):
    running(world.carla, world.city, document("traffic"), world.ana)
    for path, text in product(("/api/dataflows", "/api/proposals", "/api/profiles"), HOSTILE):
        answer = client.get(path, {"search": text})
        assert answer.status_code == 200 and answer.json()["items"] == [], (path, text)


def test_sessions_and_jobs_are_json():
    assert settings.SESSION_SERIALIZER == "django.contrib.sessions.serializers.JSONSerializer"
    assert (queue.app.conf.task_serializer, list(queue.app.conf.accept_content)) == ("json", ["json"])


OF_ITS_SLOT_ALONE = {"workers/engine/spark/fold_host.py"}  # folds come by a socket that only its slot may open


def test_nothing_of_ours_reads_what_can_hold_code():
    forbidden = re.compile(r"^\s*(?:import|from) (?:pickle|marshal|shelve|dill)\b|\byaml\.(?:load|unsafe_load)\(|"
                           r"(?<![\w.])(?:eval|exec)\(|shell=True", re.MULTILINE)
    imports = {
        str(path.relative_to(ROOT)): match[0] for package in ("dashboard", "scheduler", "workers")
        for path in (ROOT / package).rglob("*.py") if (match := forbidden.search(path.read_text()))}
    assert imports.keys() == OF_ITS_SLOT_ALONE


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock", "requirements-uv.lock"])
def test_every_requirement_is_of_one_version_with_its_hash(lock: str):
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    rows = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert rows and all("==" in row and "--hash=sha256:" in row for row in rows)


def test_what_browsers_get_of_others_has_its_version_written_down():
    folders = {path.name for path in (ROOT / "static" / "vendor").iterdir() if path.is_dir() and path.name != "build"}
    named = set(re.findall(r"^\| `([\w-]+)/` \|", (ROOT / "static" / "vendor" / "README.md").read_text(), re.MULTILINE))
    assert folders == named


def test_errors_of_the_site_itself_show_no_trace(world: World, client: Client, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(f"secret words in {settings.DATA_DIR}")

    monkeypatch.setattr("dashboard.operations.selectors.live_estate", fails)
    client.raise_request_exception = False
    answer = client.get("/api/estate")
    assert answer.status_code == 500 and json.loads(answer.content)["code"] == "internal_error"
    assert "secret words" not in answer.content.decode() and str(settings.DATA_DIR) not in answer.content.decode()
