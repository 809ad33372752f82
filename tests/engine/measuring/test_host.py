"""A slot's side of trials, without a driver: what it starts with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler.model.task_types import TaskType
from workers.engine.measuring import trial_host
from workers.engine.measuring.trial_host import Host
from workers.engine.spark import compile as compiling
from workers.library.registry import task_types

POST = {"url": "http://hooks.example.org/", "token": {"secret": "hook", "team": "city"}}


def test_a_task_type_whose_code_cannot_be_told_does_not_keep_a_slot_from_starting(monkeypatch: pytest.MonkeyPatch):
    def digest(task_type: TaskType) -> str:
        if task_type.name == "odd":
            raise RuntimeError("its loader does what it likes")
        return "c0de"

    monkeypatch.setattr(trial_host, "code_digest", digest)
    types = {name: TaskType(name, "transform", "Made.", f"plugin:{name}") for name in ("odd", "sound")}
    made = Host(SimpleNamespace(task_types=types))
    assert made._code == {"odd": "", "sound": "c0de"}


@pytest.mark.parametrize("others,ends", [((), True), (("f4-0",), False)])
def test_python_workers_end_with_a_trial_unless_others_have_come_to_need_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: tuple[str, ...], ends: bool
):
    """A trial that is cancelled gives its slot up at once, and ends some time later."""
    ended: list[str] = []
    monkeypatch.setattr(trial_host, "end_python_workers", lambda: ended.append("all"))
    monkeypatch.setattr(trial_host.queries, "stop", lambda query, **_: True)
    trial = SimpleNamespace(name="trial-1", runId="r")
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(setLogLevel=lambda level: None),
        streams=SimpleNamespace(active=[trial, *(SimpleNamespace(name=name) for name in others)]))
    listener = SimpleNamespace(forget=lambda run_ids: None, unwatch=lambda name: None)
    made = Host(SimpleNamespace(task_types={}, spark=spark, listener=listener, channels=None, data_dir=tmp_path))
    made._fragment, made._query = "trial-1", trial
    assert made.end() == {} and ended == ["all"] * ends
    made._warm_queries = {"trial-1": trial}
    assert made.rest() == {} and ended == ["all"] * (2 * ends)


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize("command", [
    {"do": "begin", "fragment": "f", "task_type": "http_post", "config": POST, "threads": 1, "schema_json": None},
    {"do": "hurry", "fragments": ["f"], "chain": [{"type": "http_post", "config": POST}]},
])
def test_a_slot_opens_no_secret_for_a_trial_that_nobody_approved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: dict, approved: bool
):
    opened: list[str] = []

    def opening(config, **_):
        opened.append(config["token"]["secret"])
        raise RuntimeError("it would be opened here")

    monkeypatch.setattr(compiling, "opened", opening)
    monkeypatch.setattr(compiling, "_input", lambda *_, **__: None)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]", setLogLevel=lambda level: None))
    made = Host(SimpleNamespace(
        task_types=task_types(), spark=spark, config=SimpleNamespace(redis_url=""), data_dir=tmp_path,
        channels=SimpleNamespace(take_fence=lambda channel: 1)))
    answer = made.perform({**command, "approved": approved})
    assert not answer["ok"] and opened == ["hook"] * approved
    assert ("was not approved" in answer["message"]) is not approved
    assert "was not approved" in made.perform(command)["message"]  # where it is not said
