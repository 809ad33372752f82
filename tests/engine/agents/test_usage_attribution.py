"""What queries take of their slot: rates from counters, CPU and memory by the time that each was busy."""

import errno
import os
from dataclasses import replace

import pytest

from workers.engine.agents.supervising.slot_usage import Usage
from workers.engine.agents.supervising.usage_attribution import Rates, UsageAttribution


def test_a_rate_is_over_the_last_seconds_and_begins_anew_with_its_counter():
    rates = Rates()
    rates.take({"a": 0}, at_ms=0)
    rates.take({"a": 20}, at_ms=1_000)
    assert rates.per_s("a") is None and rates.per_s("b") is None, "too little is known"
    rates.take({"a": 60}, at_ms=3_000)
    assert rates.per_s("a") == 20.0
    for second in range(4, 30):
        rates.take({"a": 60 + 100 * (second - 3)}, at_ms=1_000 * second)
    assert rates.per_s("a") == 100.0, "the slow beginning is forgotten"
    rates.take({"a": 5}, at_ms=30_000)
    assert rates.per_s("a") is None
    rates.take({"a": 35}, at_ms=33_000)
    assert rates.per_s("a") == 10.0


def test_who_is_held_back_is_not_idle():
    rates = Rates()
    for second in range(100):
        rates.take({"held": 3, "quiet": 3}, held_back={"held": "full"} if second < 90 else {}, at_ms=1_000 * second)
    assert (rates.idle_ms("held", now_ms=99_000), rates.idle_ms("quiet", now_ms=99_000)) == (10_000, 99_000)


def usage(second: int, cpu_ms: int, python_mb: int, *, since_ms: int = 0) -> Usage:
    return Usage(since_ms=since_ms, cpu_ms=cpu_ms, python_mb=python_mb)


def report(heap_mb: float | None, **busy_ms: int) -> dict:
    fragments = {name: {"state": "running", "busy_ms": ms} for name, ms in busy_ms.items()}
    return {"heap_mb": heap_mb, "fragments": fragments}


def test_queries_share_what_their_slot_takes_above_its_base(tmp_path):
    (tmp_path / "base_cpu").write_text("0")
    shares = UsageAttribution(slot_memory_mb=2_100, base_path=tmp_path / "base_mb")
    assert shares.take(usage(0, 0, 50), report(50), now_ms=0) == {}
    shares.take(usage(1, 0, 50), report(50, a=100, b=100), now_ms=1_000)
    taken = shares.take(usage(5, 2_000, 150), report(150, a=1_600, b=600), now_ms=5_000)
    # 2 s of CPU in 5 s; 200 MiB of the 2,000 that the base leaves. Busy for 1,600 and 600 ms since both were not there.
    assert taken["a"]["cpu"] == pytest.approx(0.4 * 1_600 / 2_200, abs=1e-3)
    assert taken["b"]["memory"] == pytest.approx(0.1 * 600 / 2_200, abs=1e-3)
    assert sum(share["cpu"] for share in taken.values()) == pytest.approx(0.4, abs=1e-3)
    alone = shares.take(usage(30, 12_000, 150), report(150, a=1_600), now_ms=30_000)
    assert alone["a"]["memory"] == pytest.approx(0.1), "one has all of it, busy or not"


def test_a_slot_that_starts_with_queries_knows_its_base_from_before(tmp_path):
    path = tmp_path / "base_mb"
    fresh = UsageAttribution(slot_memory_mb=1_100, base_path=path)
    assert fresh.take(usage(0, 0, 60), report(60, a=0), now_ms=0)["a"] == {}, "neither is known"
    assert "memory" not in fresh.take(usage(3, 300, 60), report(60, a=10), now_ms=3_000)["a"]
    fresh.take(usage(4, 300, 50), report(50), now_ms=4_000)
    fresh.take(usage(5, 300, 90), report(90), now_ms=5_000)  # it measures something
    again = UsageAttribution(slot_memory_mb=1_100, base_path=path)
    taken = again.take(usage(0, 0, 150, since_ms=9), report(150, a=0), now_ms=0)
    assert taken["a"] == {"memory": 0.2}
    assert again.take(usage(0, 0, 150, since_ms=9), report(None, a=0), now_ms=0)["a"] == {}


def test_what_a_driver_takes_by_itself_is_no_query_s(tmp_path):
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    for second in range(20):  # warming up, at half a core
        shares.take(usage(second, 500 * second, 50), report(50), now_ms=1_000 * second)
    for second in range(20, 45):  # at rest, at 40 ms a second
        shares.take(usage(second, 10_000 + 40 * (second - 20), 50), report(50), now_ms=1_000 * second)
    used_ms = 10_000 + 40 * 24
    for second in range(1, 13):
        taken = shares.take(
            usage(second, used_ms + 340 * second, 50), report(50, a=200 * second), now_ms=1_000 * (44 + second))
    assert taken["a"]["cpu"] == pytest.approx(0.3, abs=0.005)
    again = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    for second in range(6):
        taken = again.take(
            usage(second, 340 * second, 50, since_ms=9), report(50, a=200 * second), now_ms=1_000 * second)
    assert taken["a"]["cpu"] == pytest.approx(0.3, abs=0.005), "a slot that starts with queries knows it from before"


def test_a_driver_that_never_rested_has_no_base_and_all_its_cpu_is_told_once_it_is_warm(tmp_path):
    """Else a node of one slot that is given queries as soon as it starts would never tell what these take."""
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    for second in range(20):
        shares.take(usage(second, 500 * second, 50), report(50), now_ms=1_000 * second)
    for second in range(20, 141):
        taken = shares.take(usage(second, 500 * second, 50), report(50, a=100 * second), now_ms=1_000 * second)
        assert ("cpu" in taken["a"]) == (second >= 139), "half a core would be the driver's, as likely as not"
    assert taken["a"]["cpu"] == pytest.approx(0.5)
    again = shares.take(usage(141, 0, 50, since_ms=9), report(50, a=0), now_ms=141_000)
    assert "cpu" not in again["a"], "it has started anew"


def test_a_slot_where_only_what_is_paused_rests_tells_what_its_driver_takes(tmp_path):
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    paused = {"state": "stopped", "busy_ms": 700}
    resting = {"heap_mb": 50, "fragments": {"p": paused}}
    for second in range(12):
        assert shares.take(usage(second, 40 * second, 50), resting, now_ms=1_000 * second) == {}
    busy = report(150, a=0)
    busy["fragments"]["p"] = paused
    for second in range(12, 24):
        busy["fragments"]["a"]["busy_ms"] = 300 * (second - 11)
        taken = shares.take(usage(second, 440 + 340 * (second - 11), 50), busy, now_ms=1_000 * second)
    assert taken == {"a": {"cpu": pytest.approx(0.3, abs=0.005), "memory": pytest.approx(0.1)}}


def test_what_the_compilers_take_is_no_query_s(tmp_path):
    """As in profiles, or a driver that has just started would break every promise."""
    (tmp_path / "base_cpu").write_text("0.04")
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    for second in range(6):
        used = replace(usage(second, 740 * second, 50), compiling_ms=400 * second)
        taken = shares.take(used, report(50, a=200 * second), now_ms=1_000 * second)
    assert taken["a"]["cpu"] == pytest.approx(0.3, abs=0.005)


@pytest.mark.parametrize("text", ["", "1e", "\x00"])
def test_a_file_without_a_figure_is_as_good_as_none(tmp_path, text):
    """What a power loss or a full disk leaves of it must not end the agent, again at each start."""
    for name in ("base_mb", "base_cpu"):
        (tmp_path / name).write_text(text)
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "base_mb")
    assert shares.take(usage(0, 0, 60), report(60, a=0), now_ms=0)["a"] == {}
    shares.take(usage(1, 0, 50), report(50), now_ms=1_000)
    assert float((tmp_path / "base_mb").read_text()) == 100


def test_a_full_disk_costs_what_is_kept_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "base_mb"
    UsageAttribution(slot_memory_mb=1_100, base_path=path).take(usage(0, 0, 60), report(60), now_ms=0)
    assert float(path.read_text()) == 120
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=path)

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shares.take(usage(0, 0, 50), report(50), now_ms=0)
    taken = shares.take(usage(1, 0, 150), report(150, a=1), now_ms=1_000)
    assert taken["a"]["memory"] == pytest.approx(0.2), "the lower figure counts here"
    assert float(path.read_text()) == 120, "and the file has its old one, whole"


def test_a_slot_that_has_never_rested_goes_by_the_nodes_others(tmp_path):
    """Else one that is given queries as soon as it starts would tell nothing until it is empty, which may be never."""
    for name in ("slot-0", "slot-1", "slot-2"):
        (tmp_path / name).mkdir()
    shares = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "slot-0" / "base_mb")
    shares.take(usage(0, 0, 100), report(100, a=0), now_ms=0)
    assert shares.take(usage(3, 300, 100), report(100, a=10), now_ms=3_000)["a"] == {}
    for name, cpu, memory in (("slot-1", 0.05, 120), ("slot-2", 0.02, 100)):
        (tmp_path / name / "base_cpu").write_text(str(cpu))
        (tmp_path / name / "base_mb").write_text(str(memory))
    taken = shares.take(usage(6, 600, 100), report(100, a=20), now_ms=6_000)["a"]
    assert taken == {"cpu": pytest.approx(0.08), "memory": pytest.approx(0.1)}
    (tmp_path / "slot-0" / "base_cpu").write_text("0.04")
    attribution = UsageAttribution(slot_memory_mb=1_100, base_path=tmp_path / "slot-0" / "base_mb")
    attribution.take(usage(0, 0, 100), report(100, a=0), now_ms=0)
    assert attribution.take(usage(3, 300, 100), report(100, a=10), now_ms=3_000)["a"]["cpu"] == pytest.approx(0.06)
