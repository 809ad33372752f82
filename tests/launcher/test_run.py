"""The test runner: its exit code and its closing line, on test files made for the purpose."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.run import Counts, counts_of, names_tests, ran_out

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
@pytest.mark.skip(reason="this sample shows how a skipped test is counted")
def test_skipped(): pass
"""


def run_tests(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, str(ROOT / "tests" / "run.py"), "-p", "no:django", *arguments),
                          capture_output=True, text=True, timeout=300,
                          preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL))  # it may be ignored here


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


WAITS = """
import pytest
class TestWaits:
    @pytest.mark.parametrize("n", ["a@b", "c"])
    def test_wait(self, n): assert False, "waited 240.0 s for the last tick"
"""


@pytest.mark.parametrize(("added", "again"), [
    ("", ["TestWaits::test_wait[a@b]", "TestWaits::test_wait[c]"]),
    ("def test_outputs(): assert [1, 2] == [1]", []),
    ("@pytest.fixture\ndef broken(): raise OSError\ndef test_error(broken): pass", []),
    ("@pytest.fixture\ndef slow(): assert False, 'not within 60 s: it'\ndef test_start(slow): pass",
     ["TestWaits::test_wait[a@b]", "TestWaits::test_wait[c]", "test_start"]),
    ("@pytest.mark.parametrize('n', [1, 2])\ndef test_more(n): assert False, 'not within 60 s: it'", [])])
def test_few_waits_in_vain_are_tried_again_and_nothing_else(tmp_path: Path, added: str, again: list[str]) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS + added)
    report = tmp_path / "report.xml"
    subprocess.run(
        (sys.executable, "-m", "pytest", "-p", "no:django", f"--junitxml={report}", "--rootdir=.", "."),
        cwd=tmp_path, timeout=300)
    with contextlib.chdir(tmp_path):
        assert ran_out(report) == [f"test_waits.py::{name}" for name in again]


def test_what_passes_at_the_second_try_counts_as_passed(tmp_path: Path) -> None:
    suite = '<testsuite tests="9" failures="2" errors="0" skipped="1"/>'
    (tmp_path / "report.xml").write_text(f"<testsuites>{suite}</testsuites>")
    assert counts_of(tmp_path / "report.xml", mended=2) == Counts(passed=8, skipped=1)


def test_what_pytest_only_answers_is_no_failed_test() -> None:
    done = run_tests("--version")
    assert done.returncode == 0 and "failed" not in done.stdout


def test_nothing_to_run_is_an_exit_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    done = run_tests(str(tmp_path), "-k", "other")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (5, "0 passed, 0 failed, 0 skipped")


IN_FORKS = """
import os, pytest
pytest_plugins = ["tests.forks"]
def log(what): open(LOG, "a").write(f"{what} {os.environ['PYTEST_XDIST_WORKER']}\\n")
@pytest.fixture(scope="session")
def rig(tmp_path_factory):
    log("begins")
    yield
    log("ends")
"""


def run_forks(folder: Path, *arguments: str, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run files of tests in two forks."""
    (folder / "conftest.py").write_text(f"LOG = {str(folder / 'log')!r}\n{IN_FORKS}")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(
            f"import os, pytest, signal, time, warnings\nfrom conftest import log\n{text}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        return run_tests(str(folder), "--forks=2", "-p", "no:cacheprovider", *arguments)


def logged(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "log").read_text().splitlines()]


def test_what_is_grouped_stays_with_one_fork_and_its_rig_ends(tmp_path: Path) -> None:
    """A site, a browser and drivers serve a whole folder: spread, every process would start its own."""
    test = "@pytest.mark.xdist_group('folder')\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n, rig): log(n)\n"
    done = run_forks(tmp_path, files={"first": test, "second": test, "third": "def test_else(): print('seen')"})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "17 passed, 0 failed, 0 skipped"), done.stdout
    assert [what for what, _ in logged(tmp_path)] == ["begins", *map(str, [*range(8)] * 2), "ends"]
    assert len({worker for _, worker in logged(tmp_path)}) == 1


def test_forks_report_what_failed_was_printed_and_was_warned_of(tmp_path: Path) -> None:
    done = run_forks(tmp_path, files={
        "bad": "import logging\nhandler = logging.StreamHandler()\n"
               "def test_bad():\n    print('said before')\n    os.system('echo said by another')\n"
               "    logging.getLogger('it').addHandler(handler)\n    logging.getLogger('it').warning('logged')\n"
               "    assert 1 == 2\n"
               "def test_warned():\n    warnings.warn('look out', FutureWarning)\n",
        "broken": "@pytest.fixture\ndef broken(rig):\n    yield\n    raise OSError('not taken down')\n"
                  "def test_it(broken): pass\n"})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 passed, 2 failed, 0 skipped"), done.stdout
    assert "Logging error" not in done.stdout + done.stderr
    for text in ("said before", "said by another", "\nlogged\n", "assert 1 == 2", "FutureWarning: look", "taken down"):
        assert text in done.stdout


def test_a_fork_that_dies_fails_one_test_and_another_takes_over(tmp_path: Path) -> None:
    done = run_forks(tmp_path, files={
        "dies": "@pytest.mark.parametrize('n', range(4))\n"
                "def test_it(n, rig):\n    if n == 1: os.kill(os.getpid(), 9)\n    log(n)"})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "3 passed, 1 failed, 0 skipped"), done.stdout
    assert "test_it[1]" in done.stdout and "ended meanwhile with -9" in done.stdout
    assert [what for what, _ in logged(tmp_path)] == ["begins", "0", "begins", "2", "3", "ends"]


def test_forks_stop_when_the_run_is_to_stop_and_end_what_they_started(tmp_path: Path) -> None:
    """``-x`` hands out no more tests; who presses Ctrl-C has rigs ended, too."""
    done = run_forks(tmp_path, "-x", files={
        "many": "@pytest.mark.parametrize('n', range(9))\ndef test_it(n, rig):\n    log(n)\n    assert n < 2"})
    assert done.returncode and [what for what, _ in logged(tmp_path)][-1] == "ends"
    assert len(logged(tmp_path)) < 9
    (tmp_path / "log").unlink()
    done = run_forks(tmp_path, files={
        "many": "def test_it(rig):\n    os.kill(os.getppid(), signal.SIGINT)\n    time.sleep(600)"})
    assert [what for what, _ in logged(tmp_path)] == ["begins", "ends"], done.stdout


def test_bytecode_that_may_not_lie_beside_sources_is_kept_for_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "test_it.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "def test_it(): assert any(Path(sys.pycache_prefix).rglob('test_it*.pyc'))\n")
    done = run_tests(str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert not list(tmp_path.rglob("*.pyc"))


def test_paths_are_told_from_options() -> None:
    assert names_tests(["-x", str(ROOT / "tests" / "run.py")])
    assert names_tests([f"{ROOT / 'tests' / 'run.py'}::test_one"])
    assert not names_tests(["--long", "-k", "no_such_thing"])
