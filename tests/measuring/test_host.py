"""A slot's side of trials, without a driver: what it starts with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler.model.task_types import TaskType
from workers.measuring import host
from workers.measuring.host import Host


def test_a_task_type_whose_code_cannot_be_told_does_not_keep_a_slot_from_starting(monkeypatch: pytest.MonkeyPatch):
    def digest(task_type: TaskType) -> str:
        if task_type.name == "odd":
            raise RuntimeError("its loader does what it likes")
        return "c0de"

    monkeypatch.setattr(host, "code_digest", digest)
    types = {name: TaskType(name, "transform", "Made.", f"plugin:{name}") for name in ("odd", "sound")}
    made = Host(SimpleNamespace(task_types=types))
    assert made._code == {"odd": "", "sound": "c0de"}
