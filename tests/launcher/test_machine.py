"""`weir machine`: further nodes of this machine, whose agents come and go while `weir up` works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.launcher import machine

from .waiting import ROOT, wait_until


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A supervisor that follows orders; without a broker, agents say so and end, and are started again."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("standin.py")), str(tmp_path),
         json.dumps({"services": [], "errands": [], "stages": [{"names": ["agent"], "limit_s": 5.0}]})],
        env={**os.environ, "PYTHONPATH": str(ROOT), "REDIS_URL": ""}, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def order(folder: Path, *words: str) -> int:
    return machine.main([*words, "--data-dir", str(folder)])


def says(folder: Path, node: str) -> str:
    log = folder / "logs" / f"agent-{node}.log"
    return log.read_text() if log.exists() else ""


def test_the_agent_of_an_ordered_node_runs_until_it_is_stopped(up: subprocess.Popen[str], tmp_path: Path) -> None:
    (tmp_path / "secrets_key").write_text("key")
    assert order(tmp_path, "start", "n2", "--slots", "3") == 0
    wait_until(lambda: "REDIS_URL is not set" in says(tmp_path, "n2"))
    assert (tmp_path / "machines" / "n2" / "secrets_key").read_text() == "key"
    (tmp_path / "machines" / "n2" / "checkpoints" / "f1-0").mkdir(parents=True)
    (tmp_path / "machines" / "n2" / "checkpoints" / "f1-0.removed").touch()  # as of a query that has moved away
    assert order(tmp_path, "start", "n2", "--slots", "3") == 0, "an order may be repeated"
    assert order(tmp_path, "stop", "n2") == 0
    wait_until(lambda: not (tmp_path / "machines" / "n2").exists())
    assert order(tmp_path, "stop", "n2") == 0, "so may its end"


def test_states_of_queries_stay_when_a_node_is_stopped(up: subprocess.Popen[str], tmp_path: Path) -> None:
    assert order(tmp_path, "start", "n2") == 0
    wait_until(lambda: says(tmp_path, "n2"))
    (tmp_path / "machines" / "n2" / "checkpoints" / "f1-0").mkdir(parents=True)
    order(tmp_path, "stop", "n2")
    for line in up.stdout:
        if "n2 had queries" in line:
            break
    assert (tmp_path / "machines" / "n2" / "checkpoints" / "f1-0").exists()


def test_an_order_says_how_the_agent_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order(tmp_path, "start", "n3", "--slots", "1", "--link", "relay", "--delay-ms", "20")
    (tmp_path / "machines" / "broken.json").write_text("{")
    [node] = machine.ordered(tmp_path)
    argv = node.service(tmp_path).argv
    assert argv[argv.index("--link") + 1] == "relay" and argv[argv.index("--node") + 1] == "n3"
    assert argv[argv.index("--data-dir") + 1] == str(tmp_path / "machines" / "n3")
    capsys.readouterr()
    order(tmp_path, "list")
    assert capsys.readouterr().out == "n3 --slots 1 --link relay --delay-ms 20\n"


@pytest.mark.parametrize("words", [
    ["start"], ["start", "n/1"], ["start", "n2", "--slots", "0"], ["start", "n2", "--delay-ms", "5"], ["begin", "n2"],
    ["start", "n2", "--host", "x"]])
def test_what_is_no_order_is_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        order(tmp_path, *words)
    assert ended.value.code == 2 and not list(tmp_path.rglob("*.json"))


def test_a_node_that_is_ordered_is_not_ordered_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [order(tmp_path, "start", "n2", "--slots", slots) for slots in ("1", "2", "1")] == [0, 1, 0]
    assert "--slots 1" in capsys.readouterr().out and machine.ordered(tmp_path)[0].arguments == ("--slots", "1")


def test_nodes_of_one_machine_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST", 2)
    assert [order(tmp_path, "start", name) for name in ("a", "b", "c", "a")] == [0, 0, 1, 0]


def test_without_a_data_folder_it_says_which_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert order(tmp_path / "none", "start", "n2") == 1
    assert "--data-dir" in capsys.readouterr().out
