"""`./weir test`: the pytest runs that make up the test suite, and one closing line over all of them.

Browser tests are a run of their own: Playwright's synchronous interface leaves a running event loop behind, in which
no asynchronous test can start. Both runs take as many workers as there are cores (up to four). Where paths or a marker
expression are given, one run does what was asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS = 5  # pytest's exit code where nothing was collected
INTERRUPTED = 2
MOST_WORKERS = 4  # a worker may hold a Spark driver


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tests ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def counts_of(report: Path) -> Counts:
    """The counts of a JUnit report; an error counts as failed, and so does a report that was never written."""
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")
    except (OSError, ElementTree.ParseError):
        return Counts(failed=1)
    total = Counts()
    for suite in suites:
        tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("errors", 0)) + int(suite.get("failures", 0))
        total += Counts(max(0, tests - failed - skipped), failed, skipped)
    return total


def names_tests(arguments: Sequence[str]) -> bool:
    """True where the arguments name files, folders or single tests."""
    return any(not argument.startswith("-") and Path(argument.partition("::")[0]).exists() for argument in arguments)


def in_parallel() -> list[str]:
    """Options that spread a run's files over the cores."""
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    # As collected: xdist would begin with the files of most tests, and end with single long ones.
    return ["-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder"] if workers > 1 else []


def main(arguments: Sequence[str]) -> int:
    """Run pytest as often as it takes; the worst exit code."""
    paths = [] if names_tests(arguments) else [str(ROOT / "tests")]
    if names_tests(arguments) or any(argument.startswith("-m") for argument in arguments):
        runs = [[]]
    else:
        runs = [["-m", kind, *in_parallel()] for kind in ("not browser", "browser")]
    base = [sys.executable, "-P", "-m", "pytest", f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"]
    codes, total = [], Counts()
    with tempfile.TemporaryDirectory(prefix="weir-tests-") as folder:
        # State of its own: whatever runs from the usual folder stays untouched.
        # Its JVMs live for a minute: the compiler that begins at once serves them best.
        environment = {
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1", **os.environ, "WEIR_DATA_DIR": str(Path(folder) / "data"),
        }
        for number, chosen in enumerate(runs):
            report = Path(folder) / f"{number}.xml"
            codes.append(subprocess.call([*base, f"--junitxml={report}", *chosen, *arguments, *paths], env=environment))
            total += counts_of(report)
            if codes[-1] == INTERRUPTED:  # what follows was not wanted either
                break
    print(total, flush=True)
    return worst(codes)


def worst(codes: Sequence[int]) -> int:
    """The exit code of several runs; one without tests is an error only where all had none."""
    told = [abs(code) for code in codes if code != NO_TESTS]
    return max(told) if told else NO_TESTS


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # pytest has said so already
        sys.exit(INTERRUPTED)
