"""Names that no file can have: refused with their place, by every route that reads a document, and never a 500."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.dashboard.building import World

LONG = "a" * 256


def text(task: dict) -> str:
    source = task if task["type"] == "replay" else {"id": "sense", "type": "urban_sensing"}
    end = task if task["type"] in ("parquet_files", "json_lines") else {"id": "out", "type": "output",
                                                                       "config": {"name": "o"}}
    middle = [] if task in (source, end) else [task]
    tasks = [source, *middle, end]
    return json.dumps({"name": "long", "tasks": tasks, "streams": [
        {"from": one["id"], "to": other["id"]} for one, other in pairwise(tasks)]})


@pytest.fixture
def _replay_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))


@pytest.mark.usefixtures("_replay_folder")
@pytest.mark.parametrize("task", [
    {"id": "t", "type": "replay", "config": {"path": LONG}},
    {"id": "t", "type": "replay", "config": {"path": "é/" * 3000}},
    {"id": "t", "type": "annotate", "config": {"table": "file", "path": LONG, "columns": ["a"]}},
    {"id": "t", "type": "parquet_files", "config": {"folder": "a" * 300}},
    {"id": "t", "type": "json_lines", "config": {"folder": "a/" * 150 + "a"}},
    {"id": "t", "type": "file_batches", "config": {"folder": "a" * 300}},
])
def test_they_are_refused_with_their_place(world: World, client, task: dict):
    client.force_login(world.carla)
    client.raise_request_exception = False
    given = {"text": text(task), "format": "json", "team": "city"}
    answer = client.post("/api/validate", given, content_type="application/json")
    assert answer.status_code in (200, 422), answer.content[:500]
    assert "'t'" in str(answer.json()) or "/tasks/" in str(answer.json())
    assert client.post("/api/dataflows", given, content_type="application/json").status_code == 422
    assert client.post("/dataflows/new", given).status_code == 422
    body = {"type": task["type"], "config": task["config"], "feed": "", "slot": "n1/1"}
    assert client.post("/api/sweeps", body, content_type="application/json").status_code == 422
