"""What the bench of recoveries makes of kills and of an agent's log; the bench itself runs real drivers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.benches.recovery import Kill, _phases, estate_of, summary


def test_each_dataflow_is_one_query_on_the_slot_that_is_killed() -> None:
    estate = estate_of(3, 50.0)
    assert {fragment.slot for fragment in estate.fragments.values()} == {"n1/0"}
    assert len(estate.fragments) == 3 and len(estate.tasks) == 12


def test_a_kill_counts_until_the_last_dataflow_flows() -> None:
    kills = [Kill({"a": 1.0, "b": 4.0}, {"died": 0.1}, 5.0), Kill({"a": 2.0, "b": 3.0}, {"died": 0.3}),
             Kill({"a": 3.0, "b": 9.0}, {})]
    assert summary(kills) == {
        "kills": 3, "median_s": 4.0, "worst_s": 9.0, "first_dataflow_median_s": 2.0, "cpu_median_s": 0.0,
        "phases_median_s": {"died": 0.2}, "longest_wait_s": 0.0}


def test_the_wait_for_earlier_deaths_is_no_part_of_a_recovery() -> None:
    kills = [Kill({"a": 12.0}, {"died": 0.1, "started": 0.1, "session": 5.0}),
             Kill({"a": 28.5}, {"died": 0.1, "started": 16.1, "session": 21.5})]
    figures = summary(kills)
    assert (figures["median_s"], figures["worst_s"], figures["longest_wait_s"]) == (12.25, 12.5, 16.0)
    assert figures["phases_median_s"] == {"died": 0.1, "started": 0.1, "session": 5.25}


def test_phases_are_read_from_the_agents_log_after_the_kill(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"

    def line(event: str, at_s: float, slot: str = "0") -> str:
        timestamp = datetime.fromtimestamp(at_s, UTC).isoformat()
        return json.dumps({"event": event, "slot": slot, "timestamp": timestamp}) + "\n"

    log.write_text(line("slot died", 50.0))
    read_from = log.stat().st_size
    with log.open("a") as file:
        file.write(line("slot died", 100.25) + "not JSON\n" + line("slot started", 100.5) + line("session open", 103)
                   + line("fragment started", 104) + line("fragment started", 105.5)
                   + line("slot started", 120, "spare") + line("slot started", 121))
    assert _phases(log, read_from, 100.0) == {"died": 0.25, "started": 0.5, "session": 3.0, "queries": 5.5}
