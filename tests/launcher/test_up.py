"""`weir up` where it cannot start: one clear line, and nothing touched."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from workers.launcher import state_folder
from workers.launcher.__main__ import environment, read_options

from .waiting import ROOT


def up(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-P", "-m", "workers.launcher", *arguments), capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )  # fmt: skip


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = up("--port", str(port), "--data-dir", str(folder))
    assert done.returncode == 1
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    assert f"127.0.0.1:{port} is taken" in line and "--port" in line
    assert not folder.exists()


def test_an_address_of_another_machine_is_one_line(tmp_path: Path, free_port: int) -> None:
    done = up("--host", "192.0.2.1", "--port", str(free_port), "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (1, "", 1)
    assert f"192.0.2.1:{free_port}" in done.stdout and "--host" in done.stdout


def test_a_folder_in_use_is_one_line(tmp_path: Path, free_port: int) -> None:
    with state_folder.lock(tmp_path):
        done = up("--port", str(free_port), "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    assert str(tmp_path) in line and f"process {os.getpid()}" in line and "--data-dir" in line


def test_a_folder_can_be_taken_again_after_its_owner(tmp_path: Path) -> None:
    state_folder.lock(tmp_path).close()
    with state_folder.lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "file").write_text("")
    done = up("--port", str(free_port), "--data-dir", str(tmp_path / "file" / "data"))
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (1, "", 1)


def test_a_given_broker_that_is_silent_is_one_line_without_its_password(tmp_path: Path, free_port: int) -> None:
    done = up("--port", str(free_port), "--data-dir", str(tmp_path), REDIS_URL=f"redis://:hidden@127.0.0.1:{free_port}")
    assert done.returncode == 1
    assert f"127.0.0.1:{free_port}" in done.stdout.splitlines()[-1]
    assert "hidden" not in done.stdout + done.stderr


def test_an_address_for_other_machines_that_this_one_has_not_is_one_line(tmp_path: Path, free_port: int) -> None:
    done = up("--port", str(free_port), "--data-dir", str(tmp_path), "--broker-host", "192.0.2.1", REDIS_URL="")
    assert done.returncode == 1
    assert "192.0.2.1" in done.stdout.splitlines()[-1] and "--broker-host" in done.stdout


@pytest.mark.broker
def test_a_given_broker_listens_where_it_does(tmp_path: Path, free_port: int, broker_url: str) -> None:
    done = up("--port", str(free_port), "--data-dir", str(tmp_path), "--broker-host", "127.0.0.1", REDIS_URL=broker_url)
    assert done.returncode == 1
    assert "--broker-host is for the embedded broker" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "x"], ["--slots", "0"], ["--fish"]])
def test_bad_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2


def test_a_bad_number_of_slots_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_SLOTS", "many")
    with pytest.raises(SystemExit) as ended:
        read_options([])
    assert ended.value.code == 2


def test_flags_win_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_SLOTS", "3")
    monkeypatch.setenv("WEIR_DATA_DIR", str(tmp_path))
    assert (read_options([]).slots, read_options([]).data_dir) == (3, tmp_path)
    options = read_options(["--slots", "4", "--data-dir", str(tmp_path / "other")])
    variables = environment(options, url="redis://somewhere")
    assert (variables["WEIR_SLOTS"], variables["WEIR_DATA_DIR"]) == ("4", str(tmp_path / "other"))
    assert variables["REDIS_URL"] == "redis://somewhere"


def test_another_address_is_an_allowed_host_unless_the_user_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_ALLOWED_HOSTS", raising=False)
    options = read_options(["--host", "10.1.2.3"])
    assert "10.1.2.3" in environment(options, url="")["WEIR_ALLOWED_HOSTS"].split(",")
    everywhere = environment(read_options(["--host", "0.0.0.0"]), url="")["WEIR_ALLOWED_HOSTS"].split(",")
    assert "127.0.0.1" in everywhere and "*" not in everywhere
    monkeypatch.setenv("WEIR_ALLOWED_HOSTS", "weir.example.org")
    assert environment(options, url="")["WEIR_ALLOWED_HOSTS"] == "weir.example.org"


def test_packages_of_a_folder_that_the_user_names_are_there_for_all_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), "", str(ROOT)]))
    assert environment(read_options([]), url="")["PYTHONPATH"] == os.pathsep.join([str(ROOT), str(tmp_path)])
    monkeypatch.delenv("PYTHONPATH")
    assert environment(read_options([]), url="")["PYTHONPATH"] == str(ROOT)
