"""The test runner: its exit code and its closing line, on test files made for the purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.run import Counts, counts_of, names_tests

from .waiting import ROOT

MIXED = """
import pytest
def test_good(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_also_good(n): pass
def test_bad(): assert False
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
@pytest.mark.skip
def test_skipped(): pass
"""


def run_tests(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, str(ROOT / "tests" / "run.py"), "-p", "no:django", *arguments),
                          capture_output=True, text=True, timeout=120)  # fmt: skip


def test_the_closing_line_counts_everything(tmp_path: Path) -> None:
    (tmp_path / "test_mixed.py").write_text(MIXED)
    done = run_tests(str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "3 passed, 2 failed, 1 skipped"


def test_all_good_is_exit_code_zero(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    done = run_tests(str(tmp_path / "test_good.py::test_good"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")


def test_a_report_that_was_never_written_counts_as_a_failure(tmp_path: Path) -> None:
    assert counts_of(tmp_path / "none.xml") == Counts(failed=1)


def test_nothing_to_run_is_an_exit_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    done = run_tests(str(tmp_path), "-k", "other")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (5, "0 passed, 0 failed, 0 skipped")


def test_paths_are_told_from_options() -> None:
    assert names_tests(["-x", str(ROOT / "tests" / "run.py")])
    assert names_tests([f"{ROOT / 'tests' / 'run.py'}::test_one"])
    assert not names_tests(["--long", "-k", "no_such_thing"])
