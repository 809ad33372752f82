"""Profiles from the command line and over the API."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard.commands.management.commands import profile as command
from dashboard.profiles.models import ProfileRecord, SweepRecord
from scheduler.model.profile_csv import read_entries, read_profiles
from tests.dashboard.building import World, document, planned
from tests.pages.conftest import ClientOf
from tests.profiles.nodes import Node
from tests.scheduler.shared_data import shared_data

HEADER = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct"


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("profile", *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def prompt(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that works while the command waits, for which no time passes but that."""
    clock = SimpleNamespace(at=timezone.now(), now=lambda: clock.at)

    def wait(seconds: float) -> None:
        clock.at += timedelta(seconds=seconds)
        node.work()

    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr(command, "timezone", clock)
    return node


def test_the_published_profiles_import_list_and_export(world: World, tmp_path: Path):
    file = shared_data("performance_models/performance_model.csv")
    assert "blob: 5 points" in run("import", str(file))
    listed = run("list", "--search", "table")
    assert "40/s with 60 threads" in listed and "any config" in listed and "blob" not in listed
    run("export", str(tmp_path / "out.csv"))
    exported = (tmp_path / "out.csv").read_text()
    assert set(read_profiles(exported)) == set(read_profiles(file.read_text())) and run("export") == exported


def test_a_bad_file_lists_its_places(world: World, tmp_path: Path):
    file, err = tmp_path / "bad.csv", io.StringIO()
    file.write_text(f"{HEADER}\na,1,1,10,10\nb,x,1,10,10\nc,1,-1,10,10\n")
    with pytest.raises(CommandError, match="2 problems"):
        call_command("profile", "import", str(file), stderr=err)
    assert f"{file}:3:2:" in err.getvalue() and f"{file}:4:3:" in err.getvalue()
    assert not ProfileRecord.objects.exists()
    (tmp_path / "latin.csv").write_bytes(b"\xff")
    for wrong in ("absent.csv", "latin.csv"):
        with pytest.raises(CommandError):
            run("import", str(tmp_path / wrong))


def test_a_type_is_measured_and_waited_for(world: World, prompt: Node):
    output = run("measure", "block_average", "--feed", "source:urban_sensing", "--wait", "--minutes", "60",
                 "--as", "mo")
    sweep = SweepRecord.objects.get()
    assert (sweep.author, sweep.status) == (world.mo, "done") and "  1    1 threads" in output
    assert read_profiles(output[output.index("task,threads"):])[0].task_type == "block_average"


def test_a_task_of_a_dataflow_is_measured(world: World, prompt: Node):
    planned(world.carla, world.city, document("traffic"))
    run("measure", "--dataflow", "traffic", "--task", "average", "--slot", "n1/1", "--as", "carla")
    assert SweepRecord.objects.get().fed_by == "sense → parse, as in traffic"


@pytest.mark.parametrize("words", [
    ("nothing",), ("block_average", "--config", "{"), ("block_average", "--config", "[1]"),
    ("block_average", "--config", '{"windw": 1}'),
    ("--dataflow", "nothing"), ("block_average", "--as", "vera"), ("block_average", "--slot", "n9/0"),
    ("block_average", "--minutes", "0"),
])
def test_what_cannot_be_measured_is_said(world: World, words):
    with pytest.raises(CommandError):
        run("measure", *words)
    assert not SweepRecord.objects.exists()


def test_a_sweep_that_fails_ends_the_command_with_its_reason(world: World, prompt: Node):
    prompt.peak = lambda threads: 0.1
    with pytest.raises(CommandError, match="failed"):
        run("measure", "block_average", "--feed", "source:urban_sensing", "--wait")


def test_profiles_over_the_api(world: World, client_of: ClientOf):
    client = client_of("carla")
    text = f"{HEADER},version,rough\nsenml_parse,1,5,10,10,9,1\n"
    made = client.post("/api/profiles", {"text": text}, "application/json")
    assert made.status_code == 201 and "version 9" in made.json()[0]["stale"]
    listed = client_of("vera").get("/api/profiles").json()
    assert (listed["total"], listed["items"][0]["points"][0]["rate_per_s"]) == (1, 5.0)
    assert client.get(f"/api/profiles/{made.json()[0]['id']}").json()["task_type"] == "senml_parse"
    [entry] = read_entries(client.get("/api/profiles.csv").content.decode())
    assert (entry.profile.version, entry.rough) == (9, (1,))
    assert run("export") == client.get("/api/profiles.csv").content.decode()
    wrong = client.post("/api/profiles", {"text": f"{HEADER}\na,b,c,d,e\n"}, "application/json")
    assert wrong.status_code == 422 and wrong.json()["facts"]["problems"][0]["column"] == 2
    assert client_of("vera").post("/api/profiles", {"text": "x"}, "application/json").status_code == 403


def test_sweeps_over_the_api(world: World, node: Node, client_of: ClientOf):
    client = client_of("carla")
    given = {"type": "block_average", "config": {"window": 5}, "feed": "source:urban_sensing", "slot": "n1/0"}
    made = client.post("/api/sweeps", given, "application/json")
    assert made.status_code == 201, made.content
    address = f"/api/sweeps/{made.json()['id']}"
    node.run(steps=3)
    answer = client_of("vera").get(address).json()
    assert answer["progress"]["trials"] == 2 and answer["trials"][0]["machine"]["class"] == "cpu-a"
    assert client_of("vera").get(f"{address}/trials/1").json()["series"] == []
    assert client_of("vera").get(f"{address}/trials/99").status_code == 404
    assert client_of("vera").post(f"{address}/pause").status_code == 403
    assert client.post(f"{address}/pause").json()["status"] == "paused"
    assert client.post(f"{address}/burn").status_code == 404
    assert client.post(f"{address}/cancel").json()["status"] == "cancelled"
    assert client.post(f"{address}/resume").status_code == 409
    assert client.get("/api/sweeps").json()["total"] == 1
    busy = client.post("/api/sweeps", given | {"slot": "n1/7"}, "application/json")
    assert busy.status_code == 404 and json.loads(busy.content)["code"] == "not_found"
