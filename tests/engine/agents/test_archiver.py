"""The agent has an archive of classes written once, by a process that it notices, stops, and never waits for."""

import os
import sys
import time

import pytest

from workers.engine.agents.supervising.archiver import Archiver
from workers.engine.worker_settings import from_environment


def archiver(body: str) -> Archiver:
    return Archiver(os.environ, argv=(sys.executable, "-c", body))


def until_ended(writer: Archiver) -> None:
    deadline = time.monotonic() + 180
    while writer.pid is not None:
        assert time.monotonic() < deadline
        writer.check()
        time.sleep(0.02)


@pytest.mark.parametrize("code", [0, 1])
def test_it_is_written_once_whether_that_worked_or_not(tmp_path, code):
    writer = archiver(f"import pathlib, sys; open({str(tmp_path / 'runs')!r}, 'a').write('x'); sys.exit({code})")
    for _ in range(3):
        writer.start()
        until_ended(writer)
    assert (tmp_path / "runs").read_text() == "x"


def test_it_waits_behind_everything_else_and_ends_with_the_agent():
    writer = archiver("import time; time.sleep(600)")
    writer.start()
    pid = writer.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    writer.end()
    assert writer.pid is None and not os.path.exists(f"/proc/{pid}")


def test_it_is_written_unless_the_operator_says_no():
    assert from_environment({}).class_archive
    assert not from_environment({"WEIR_CLASS_ARCHIVE": "0"}).class_archive
