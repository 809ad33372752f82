"""A system is backed up while events flow, and restored elsewhere: outputs are those that it would have had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from workers.processes import python_path

from .system import System
from .waiting import ROOT, wait_until

Key = tuple[int, str]
FOLDERS = ("smoothed", "read")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_what_is_restored_goes_on_with_each_event_once(tmp_path: Path, monkeypatch, free_port: int) -> None:
    monkeypatch.setenv("WEIR_FILE_S", "3")  # files are closed while it is copied, too
    data, copies = tmp_path / "data", [tmp_path / "first", tmp_path / "second"]
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        run("-m", "tests.launcher.carried_estate", data=data)
        wait_until(lambda: min(len(events(data, folder)) for folder in FOLDERS) > 200, limit_s=120)
        for copy in copies:
            run("-m", "workers.launcher.backup", "backup", str(copy), "--data-dir", str(data), data=None)
            time.sleep(1.7)
        at_copy = {folder: last(data, folder) for folder in FOLDERS}
        wait_until(lambda: all(last(data, folder) > at_copy[folder] + 100 for folder in FOLDERS), limit_s=120)
    finally:
        system.process.terminate()
        system.process.wait(60)
    original = {folder: events(data, folder) for folder in FOLDERS}
    for folder in FOLDERS:
        require_each_once(original[folder])
    for number, copy in enumerate(copies):
        restored = tmp_path / f"restored-{number}"
        run("-m", "workers.launcher.backup", "restore", str(copy), "--data-dir", str(restored), data=None)
        begun = {folder: last(restored, folder) for folder in FOLDERS}
        system = System(restored, free_port, slots=2)
        try:
            system.until_ready()
            beyond = {folder: max(number for number, _ in dict(original[folder])) for folder in FOLDERS}
            wait_until(lambda folder=restored, past=beyond: all(last(folder, name) > past[name] for name in FOLDERS),
                       limit_s=240)
        finally:
            system.process.terminate()
            system.process.wait(60)
        for folder in FOLDERS:
            again = events(restored, folder)
            require_each_once(again)
            assert begun[folder] < beyond[folder], "it was copied before the original ended"
            both = set(dict(again)) & set(dict(original[folder]))
            first, second = dict(original[folder]), dict(again)
            assert len(both) == len(first), "all that the original had, with what it made after the copy"
            assert {key: second[key] for key in both} == first, "the state that was restored gives the same values"


def require_each_once(events_seen: list[tuple[Key, str]]) -> None:
    counts = Counter(key for key, _ in events_seen)
    assert max(counts.values()) == 1, [key for key, count in counts.items() if count > 1][:5]
    numbers = {number for number, _ in counts}
    assert numbers == set(range(min(numbers), max(numbers) + 1))
    of_message = Counter(number for number, _ in counts)
    assert len({count for number, count in of_message.items()}) == 1, "of each message every observation"


def events(data: Path, folder: str) -> list[tuple[Key, str]]:
    """Each event of a sink by its number and quantity, with all that does not say when it passed."""
    events_seen = []
    for path in sorted(data.glob(f"outputs/{folder}-*/*/events-*.json")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            rest = {name: value for name, value in event.items() if name != "_born"}
            events_seen.append(((event["_seq"], event["obs"]), json.dumps(rest, sort_keys=True)))
    return events_seen


def last(data: Path, folder: str) -> int:
    return max((number for (number, _), _ in events(data, folder)), default=-1)


def run(*arguments: str, data: Path | None) -> str:
    """What a program of Weir's prints, in the surroundings of a system where one is named."""
    variables = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    if data is not None:
        variables |= {"WEIR_DATA_DIR": str(data), "REDIS_URL": (data / "broker" / "url").read_text().strip()}
    done = subprocess.run(
        (sys.executable, "-P", *arguments), capture_output=True, text=True, timeout=400, cwd=ROOT,
        env={**variables, "PYTHONPATH": python_path(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
