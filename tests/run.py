"""`./weir test`: pytest over the whole suite, and one closing line.

It takes two workers more than there are cores (up to four), for tests wait for a third of their time or more. Where
paths or a marker expression are given, one process does what was asked. `--changed` runs what a change reaches, what is
nearest to it first, for two minutes: see ``changed.py``. A wait that ran out beside other tests is tried again alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILED, INTERRUPTED = 1, 2
SHOWN = 25  # files, of those that took longest
MOST_WORKERS = 4  # a worker may hold a Spark driver
CHANGED = "--changed"
CHANGED_S = 120  # within which a run of what has changed begins its last test, unless `--within` says otherwise
MOST_AGAIN = 3  # tests: where more ran out of time, something else is wrong
# What waits for other processes says how busy the machine was; what compares outputs says what is wrong.
RAN_OUT = re.compile(r"waited .* for |did not come true|not (so )?within|TimeoutError|Timeout .*exceeded|connect back")
# JVMs of tests live for a minute: the compiler that begins at once serves them best.
JAVA = "-XX:TieredStopAtLevel=1"
# Nor need each of them verify classes that a compiler wrote, a fifth of a driver's start; in the long run they do.
JAVA_UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tests ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def counts_of(report: Path, *, mended: int = 0) -> Counts:
    """The counts of a JUnit report; an error counts as failed, and so does a report that was never written.

    ``mended`` tests of those that failed passed when they were tried again.
    """
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")
    except (OSError, ElementTree.ParseError):
        return Counts(failed=1)
    [suite] = suites
    tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("errors", 0)) + int(suite.get("failures", 0)) - mended
    return Counts(max(0, tests - failed - skipped), failed, skipped)


def slowest_of(report: Path, most: int = SHOWN) -> list[str]:
    """The files whose tests took longest, with their seconds; set-up is the first test's that needs it."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        seconds[case.get("classname", "")] += round(float(case.get("time", 0)))
    return [f"{count:5d} s  {name}" for name, count in seconds.most_common(most) if count]


def ran_out(report: Path) -> list[str]:
    """The failed tests, where they are few and each had only waited in vain; else none."""
    failed = [case for case in ElementTree.parse(report).getroot().iter("testcase") if _faults(case)]
    waits = [case for case in failed if all(RAN_OUT.search(fault.get("message", "")) for fault in _faults(case))]
    return [_identifier(case) for case in waits] if len(waits) == len(failed) <= MOST_AGAIN else []


def _faults(case: ElementTree.Element) -> list[ElementTree.Element]:
    """The faults of a test, and of what it needed: a start that took too long is a wait, too."""
    return [*case.iter("failure"), *case.iter("error")]


def _identifier(case: ElementTree.Element) -> str:
    """What pytest calls the test of a report."""
    parts = case.get("classname", "").split(".")
    depth = next(depth for depth in range(len(parts), 0, -1) if Path(*parts[:depth]).with_suffix(".py").exists())
    return "::".join([f"{Path(*parts[:depth])}.py", *parts[depth:], case.get("name", "")])


def names_tests(arguments: Sequence[str]) -> bool:
    """True where the arguments name files, folders or single tests."""
    return any(not argument.startswith("-") and Path(argument.partition("::")[0]).exists() for argument in arguments)


def in_parallel() -> list[str]:
    """Options that spread a run's files over the cores."""
    cores = len(os.sched_getaffinity(0))
    return [f"--forks={min(MOST_WORKERS, cores + 2)}"] if cores > 1 else []


def of_changes(option: str) -> list[str]:
    """Options that run what changes reach since the revision that `--changed=REVISION` names."""
    sys.path.insert(0, str(ROOT))
    from tests import changed

    files = changed.changed_files(option.removeprefix(CHANGED).removeprefix("="))
    chosen = changed.nearest_first(changed.reached_by(files, changed.importers_of_all())) if files else []
    print(f"{len(files)} changed files reach {len(chosen)} files of tests.", flush=True)
    return [f"--within={CHANGED_S}", *(str(ROOT / file) for file in chosen)] if chosen else []


def main(arguments: Sequence[str]) -> int:
    """Run pytest; its exit code."""
    since = next((argument for argument in arguments if argument.partition("=")[0] == CHANGED), "")
    arguments = [argument for argument in arguments if argument != since]
    chosen = of_changes(since) if since else [] if names_tests(arguments) else [str(ROOT / "tests")]
    if since and not chosen:
        return 0
    if chosen and not any(argument.startswith("-m") for argument in arguments):
        chosen += in_parallel()
    base = [sys.executable, "-P", "-m", "pytest", f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"]
    with tempfile.TemporaryDirectory(prefix="weir-tests-") as folder:
        # State of its own: whatever runs from the usual folder stays untouched.
        environment = {
            "JAVA_TOOL_OPTIONS": JAVA if "--long" in arguments else f"{JAVA} {JAVA_UNVERIFIED}",
            "WEIR_CLASS_ARCHIVE": "0", **os.environ,
            "WEIR_DATA_DIR": str(Path(folder) / "data"),
        }
        # Where no bytecode may lie beside sources, it lies here: else each of many processes compiles what it imports.
        if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
            environment["PYTHONPYCACHEPREFIX"] = str(Path(sys.prefix) / "bytecode")  # the next run has it, too
        report = Path(folder) / "report.xml"
        code = subprocess.call([*base, f"--junitxml={report}", *chosen, *arguments], env=environment)
        if chosen and report.exists():
            print("Slowest files:", *slowest_of(report), sep="\n", flush=True)
        again = ran_out(report) if chosen and code == FAILED and report.exists() else []
        if again:
            print("Waited in vain beside other tests, tried again alone:", *again, sep="\n  ", flush=True)
            code = subprocess.call([*base, *again, *({"--long"} & {*arguments})], env=environment)
        if code or report.exists():  # pytest writes none where it was only asked what it knows
            print(counts_of(report, mended=0 if code else len(again)), flush=True)
    return abs(code)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # pytest has said so already
        sys.exit(INTERRUPTED)
