"""`weir spark-cluster`: what it writes and refuses. That slots run on it: tests/engine/spark/test_cluster.py."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from workers.launcher.spark_cluster import Cluster, read_options

from .waiting import ROOT


def test_options_come_from_the_command_line_and_the_data_folder_from_the_environment(tmp_path: Path) -> None:
    cluster = read_options(["--port", "7100", "--workers", "3", "--cores", "4"], {"WEIR_DATA_DIR": str(tmp_path)})
    assert (cluster.url, cluster.workers, cluster.cores) == ("spark://127.0.0.1:7100", 3, 4)
    assert cluster.folder == tmp_path / "spark-cluster"


@pytest.mark.parametrize("arguments", [["--workers", "0"], ["--cores", "-1"], ["--memory-mb", "0"], ["--port", "x"]])
def test_bad_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2


def test_its_secret_is_its_own_closed_to_others_and_stays(tmp_path: Path) -> None:
    first, second = Cluster(tmp_path / "1"), Cluster(tmp_path / "2")
    texts = []
    for cluster in (first, second, first):
        cluster.prepare()
        texts.append((cluster.conf / "spark-defaults.conf").read_text())
    assert texts[0] == texts[2] != texts[1] and "spark.authenticate.secret" in texts[0]
    assert stat.S_IMODE((first.conf / "spark-defaults.conf").stat().st_mode) == 0o600
    assert stat.S_IMODE(first.conf.stat().st_mode) == 0o700


def test_executors_log_warnings_alone_into_files_that_roll(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.prepare()
    assert "rootLogger.level = warn" in (cluster.conf / "log4j2.properties").read_text()
    defaults = (cluster.conf / "spark-defaults.conf").read_text()
    assert "rolling.maxSize" in defaults and "spark.worker.cleanup.enabled" in defaults


def test_all_of_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert cluster.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    for service in cluster.services():
        assert service.argv[service.argv.index("--host") + 1] == "127.0.0.1"


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = subprocess.run(
            (sys.executable, "-P", "-m", "workers.launcher.spark_cluster", "--port", port, "--data-dir", str(tmp_path)),
            capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (1, "")
    [line] = done.stdout.splitlines()
    assert port in line and "--port" in line
