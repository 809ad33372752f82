"""A function that raises whenever it is tried: its query is given up, its dataflow rests, and who shares its first
tasks gets all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from scheduler.contracts.reports import QueryReport, SpillReport
from tests.library.package import install_package
from workers.engine import observed
from workers.engine.agents.backoff import RETRIES

from .failing_estate import BROKEN_AT
from .system import System
from .test_backup_under_flow import events, last, require_each_once, run
from .waiting import wait_until

ERROR = f"The function sensors.checks:picky raised ValueError: not this one: {BROKEN_AT}"


class Seen:
    """What the nodes of a system report, and what they reported for a while: a look may come after it is over."""

    def __init__(self, broker: redis.Redis) -> None:
        self._broker = broker
        self.most_failures = 0
        self.has_spilled = self.has_given_up = False

    def queries(self) -> dict[str, QueryReport]:
        """All that have a slot, by name."""
        reports = observed.read_reports(self._broker)
        return {name: query for node in reports.values() for slot in node.slots.values()
                for name, query in slot.fragments.items()}

    def failing(self) -> list[tuple[str, QueryReport]]:
        """The queries that have failed."""
        failed = [(name, query) for name, query in self.queries().items() if query.error]
        self.most_failures = max([self.most_failures, *(query.failures for _, query in failed)])
        self.has_given_up |= any(query.gave_up for _, query in failed)
        return failed

    def look(self) -> bool:
        """Look for what may be over soon; always true."""
        self.failing()
        self.has_spilled |= bool(self.spills())
        return True

    def spills(self) -> list[SpillReport]:
        """Of readers that are behind."""
        return [spill for node in observed.read_reports(self._broker).values() for spill in node.spills.values()]


def generation_of(query: str) -> str:
    """What the queries of one submission have in common."""
    return query.partition("-")[0]


def counts(data: Path, folder: str) -> Counter[int]:
    """How many events of each message are in a sink's closed files."""
    return Counter(
        json.loads(line)["_seq"] for path in data.glob(f"outputs/{folder}-*/*/events-*.json")
        for line in path.read_text().splitlines())


def status_of(data: Path) -> dict[str, Any]:
    return json.loads(run("-m", "tests.launcher.failing_estate", "tell", data=data))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_what_can_only_fail_rests_and_who_shares_its_first_tasks_gets_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    install_package(tmp_path / "packages", monkeypatch)
    settings = {
        "WEIR_FILE_S": "3", "WEIR_HOLD_S": "2", "WEIR_SPILL_MB": "1",
        "WEIR_TRIGGER_MS": "200", "WEIR_LONGEST_TRIGGER_MS": "200"}  # a channel is full after so many batches
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    data = tmp_path / "data"
    system = System(data, free_port, slots=2)
    try:
        system.until_ready()
        run("-m", "tests.launcher.failing_estate", "submit", data=data)
        with redis.Redis.from_url((data / "broker" / "url").read_text().strip()) as broker:
            seen = Seen(broker)
            wait_until(lambda: len(seen.failing()) == 1)
            [(failing, query)] = seen.failing()
            assert ERROR in query.error and query.failed_tasks
            others = {name: query.run_id for name, query in seen.queries().items()
                      if generation_of(name) != generation_of(failing)}
            assert others and all(others.values())

            # It is tried again and again; what it does not read goes to disk, and nobody waits for it.
            reached = last(data, "smoothed")
            wait_until(
                lambda: seen.look() and seen.has_spilled and last(data, "smoothed") > reached + 100, limit_s=400)
            wait_until(lambda: seen.look() and seen.has_given_up, limit_s=400)
            assert seen.most_failures == RETRIES + 1

            # Where there is no more room on disk, its dataflow rests; nothing else does, nor is anything restarted.
            wait_until(lambda: status_of(data)["status"]["Failing"] == "paused", limit_s=400)
            assert status_of(data) == {
                "status": {"Smoothed": "running", "Failing": "paused"}, "verbs": ["dataflow.pause_failing"],
                "states": ["paused_failed"]}
            reached = last(data, "smoothed")
            wait_until(lambda: last(data, "smoothed") > reached + 200, limit_s=240)
            queries = seen.queries()
            assert {name: queries[name].run_id for name in others} == others
            assert queries[failing].state == "stopped"
            wait_until(lambda: not seen.spills())

            # Resumed, it goes on with what comes then.
            before = counts(data, "failing")
            run("-m", "tests.launcher.failing_estate", "resume", data=data)
            wait_until(lambda: max(counts(data, "failing"), default=0) > max(before) + BROKEN_AT, limit_s=240)
    finally:
        system.process.terminate()
        system.process.wait(60)
    smoothed = events(data, "smoothed")
    require_each_once(smoothed)
    assert min(number for (number, _), _ in smoothed) == 0
    failing = counts(data, "failing")
    after = failing.keys() - before.keys()
    for numbers in (before.keys(), after):  # it joined what ran already
        assert numbers == set(range(min(numbers), max(numbers) + 1))
    assert max(before) < BROKEN_AT < min(after)
    assert set(failing.values()) == {Counter(number for (number, _), _ in smoothed)[0]}, "every observation once"
