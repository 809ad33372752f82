"""The bench of schedules on published dataflows: what it prints and stores, and that it says which labels are ours."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from scheduler.scheduling import prepare
from tests.benches import schedules
from tests.benches.published_dataflows import LABELS
from tests.benches.schedules import main, over_limits

PROFILES = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct\n" + "".join(f"{name},1,100,50,20\n" for name in LABELS)
CHAIN = {"edges": [["src", "1"], ["1", "2"], ["2", "sink"]]}
DATAFLOWS = {
    "micro_from_FullTopoSC_2016": {"linear": [["src", "blob"], ["blob", "sink"]]},
    "structure_from_storm_rebalance_2017": {"star": CHAIN, "traffic_11_tasks": CHAIN, "smartgrid_15_tasks": CHAIN}}


def test_labels_of_ours_are_told_from_published_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "dags.json").write_text(json.dumps(DATAFLOWS))
    (tmp_path / "performance_model.csv").write_text(PROFILES)
    out = tmp_path / "out.json"
    main(["--published", str(tmp_path), "--rates", "50", "--sizes", "12", "--repeat", "1", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "the task labels are our choice" in printed and "extra" in printed
    stored = json.loads(out.read_text())
    assert stored["labels"] in printed and "Finance dataflow is absent" in printed
    assert {(row["dataflow"], row["labels"]) for row in stored["published"]} == {
        ("linear", "published"), ("star", "ours"), ("traffic", "ours"), ("grid", "ours")}
    assert len(stored["published"]) == 4 * 8
    assert [row["largest node"] <= 4 for row in stored["growth"]] == 6 * [True] + 6 * [False], "a large node at the end"


def row(tasks: int, *, took_s: float = 0.1, grown: float = 1.0) -> dict[str, object]:
    return {"tasks": tasks, "largest node": 4, "allocation": "LSA", "mapping": "RSM", "s": took_s, "of n log n": grown}


def test_what_takes_too_long_or_grows_too_fast_is_told():
    assert over_limits([row(125), row(1000, took_s=0.9, grown=2.4), row(4000, took_s=3.0)]) == []
    slow, fast = over_limits([row(125), row(1000, took_s=1.2), row(4000, grown=2.6)])
    assert "1,000 tasks by LSA with RSM" in slow and "1.20 s; 1 s at most" in slow
    assert "4,000 tasks" in fast and "2.6 times n log n; 2.5 at most" in fast
    assert over_limits([row(20), row(40, grown=9.0), row(200, grown=9.0)]) == [], "what takes no time is not judged"


def test_planning_is_measured_with_rates_and_profiles_and_the_command_fails_beyond_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    slow_s = 0.05

    def prepare_slowly(*given, **named):
        time.sleep(slow_s)
        return prepare(*given, **named)

    monkeypatch.setattr(schedules, "prepare", prepare_slowly)
    monkeypatch.setattr(schedules, "LIMIT_TASKS", 12)
    monkeypatch.setattr(schedules, "LIMIT_S", 0.0)
    out = tmp_path / "out.json"
    assert main(["--published", str(tmp_path), "--sizes", "12", "--repeat", "1", "--out", str(out)]) == 1
    assert "Over the limit: 12 tasks by LSA with DSM" in capsys.readouterr().out
    stored = json.loads(out.read_text())
    assert len(stored["over limits"]) == 12
    assert all(row["s"] >= slow_s for row in stored["growth"])
