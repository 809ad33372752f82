"""`weir agent`: the slots of a further machine. Where it cannot serve: one clear line, and nothing started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from workers.launcher.agent import read_options

from .waiting import ROOT, wait_until

AGENT = (sys.executable, "-P", "-m", "workers.launcher.agent")


def variables(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "REDIS_URL": "", **more}


def agent(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*AGENT, *arguments), capture_output=True, text=True, timeout=300, env=variables(**more))


def test_without_a_broker_it_says_what_to_give(tmp_path: Path) -> None:
    done = agent("--node", "n2", "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (1, "")
    [line] = done.stdout.splitlines()
    assert "REDIS_URL" in line and not (tmp_path / "data").exists()


def test_a_broker_that_is_silent_is_one_line_without_its_password(tmp_path: Path, free_port: int) -> None:
    done = agent("--node", "n2", "--data-dir", str(tmp_path), REDIS_URL=f"redis://:hidden@127.0.0.1:{free_port}/0")
    assert done.returncode == 1
    [line] = done.stdout.splitlines()
    assert f"127.0.0.1:{free_port}" in line and "hidden" not in done.stdout + done.stderr


@pytest.mark.broker
def test_a_name_that_another_machine_has_is_refused(tmp_path: Path, broker: redis.Redis, broker_url: str) -> None:
    broker.set("weir:lease:n2", "another data folder")
    done = agent("--node", "n2", "--data-dir", str(tmp_path), REDIS_URL=broker_url)
    assert done.returncode == 1
    [line] = done.stdout.splitlines()
    assert "n2 is served" in line and "--node" in line
    assert broker.get("weir:lease:n2") == b"another data folder"


@pytest.mark.parametrize("arguments", [
    [], ["--node", "n1/0"], ["--node", ""], ["--node", "n2", "--slots", "0"], ["--node", "n2", "--slots", "x"]])
def test_bad_arguments_are_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_NODE", raising=False)
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2


def test_the_name_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEIR_NODE", "n7")
    assert read_options(["--data-dir", str(tmp_path)]).node == "n7"
    assert read_options(["--node", "n8", "--slots", "3"]).node == "n8"


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.long
@pytest.mark.parametrize("link", [(), ("--link", "auto", "--delay-ms", "1", "--mbit", "200")])
def test_its_slots_serve_and_end_with_it(
    link: tuple[str, ...], tmp_path: Path, broker: redis.Redis, broker_url: str
) -> None:
    process = subprocess.Popen(
        (*AGENT, "--node", "n2", "--slots", "1", "--data-dir", str(tmp_path), *link), stdout=subprocess.PIPE,
        text=True, env=variables(REDIS_URL=broker_url, WEIR_SECRETS_KEY=""))
    try:
        printed = []
        while not any("n2 ready" in line for line in printed):
            printed.append(process.stdout.readline())
            assert printed[-1], "".join(printed)
        assert any("secrets_key" in line for line in printed), "it says what the site's secrets need"
        assert not any(broker_url.partition("@")[0] in line for line in printed), "nobody reads the password"
        report = json.loads(broker.get("weir:observed:n2"))
        assert report["link"] == "" if not link else report["link"].startswith("1 ms each way, 200 Mbit/s; ")
        assert any(report["link"] in line for line in printed)
        [slot] = report["slots"].values()
        assert slot["state"] == "running"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert process.returncode == 0
    wait_until(lambda: not Path(f"/proc/{slot['pid']}").exists())
