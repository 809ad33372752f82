"""Orders of trials, with a stand-in for the slot: what is refused and why, what dies midway, and what stays of it."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from scheduler.contracts.trials import TrialOrder, TrialProgress, TrialResult
from workers.engine import trial_store
from workers.engine.agents.supervising import trial as trial_module
from workers.engine.agents.supervising import trial_runner as runner_module
from workers.engine.agents.supervising.supervision import SlotGone
from workers.engine.agents.supervising.trial_runner import TrialRunner
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.measuring import feed
from workers.engine.worker_settings import Settings
from workers.library.registry import task_types

from ..measuring.test_feed import events

pytestmark = pytest.mark.broker
ORDER = TrialOrder(
    "t1", "n1", "0", "pi_viete", {}, threads=2, rate_per_s=50.0, warm_up_s=0.1, seconds=0.6,
    first_warm_up_s=0.1, driver_warm_up_s=0.1,
    feed=({"type": "urban_sensing", "config": {}},),
)

BATCH = {"planned_s": 1.0, "ended_s": 1.5, "events_in": 5, "events_out": 5, "born_s": 0.5}


class StandIn:
    """A slot that answers what a real one would, or dies when it is told to do something."""

    def __init__(
        self, process: subprocess.Popen, channels: Channels, *, dies_at: str = "", fails_at: str = ""
    ) -> None:
        self.name, self.state, self.report, self.pid = "0", "running", {"fragments": {}}, process.pid
        self.asked: list[str] = []
        self.approved: list[bool] = []  # of what was to be built
        self.forged: dict[str, object] = {}  # what it answers instead
        self._channels, self._dies_at, self._fails_at = channels, dies_at, fails_at

    def ask(self, do: str, *, pid: int, within_s: float, **what) -> dict:
        self.asked.append(do)
        self.approved += [what["approved"]] if "approved" in what else []
        if do == self._dies_at:
            raise SlotGone("slot 0 died")
        if do == self._fails_at:
            return {"ok": False, "code": "task_failed", "message": "it is broken", "remedy": "mend it"}
        if do == "feed":
            feed.write(Path(what["path"]), [events(50)], schema_json="{}")
        return {"ok": True, "heap_mb": 40.0, "java": "17", "pyspark": "4", "code": "c0de", "batches": [],
                "fence": self._fed(what["fragment"]) if do == "begin" else 0, **self.forged}

    def _fed(self, fragment: str) -> int:
        channel = f"{fragment}.in"
        self._channels.open_channel(channel, schema_json="{}", readers=[fragment])
        return self._channels.take_fence(channel)


@pytest.fixture
def slot(broker: redis.Redis) -> Iterator[StandIn]:
    process = subprocess.Popen(["sleep", "60"])
    yield StandIn(process, Channels(broker))
    process.kill()
    process.wait()


@pytest.fixture
def trial_runner(
    broker_url: str, broker: redis.Redis, tmp_path: Path, slot: StandIn, monkeypatch
) -> Iterator[TrialRunner]:
    for name in ("BASE_S", "IDLE_S", "SAMPLE_S", "START_S"):
        monkeypatch.setattr(trial_module, name, 0.05)
    monkeypatch.setattr(runner_module, "TAKE_S", 0.05)
    settings = Settings(redis_url=broker_url, data_dir=tmp_path, threads=8)
    made = TrialRunner(settings, slots=lambda: [slot], folder=tmp_path / "nodes" / "n1", task_types=task_types(),
                       apart=lambda do: do())
    yield made
    made.stop()
    if made.is_alive():
        made.join(10)


def come_of(broker: redis.Redis, trial_runner: TrialRunner, order: TrialOrder) -> TrialResult:
    if not trial_runner.is_alive():
        trial_runner.start()
    trial_store.order(broker, order)
    deadline = time.monotonic() + 120
    while (result := trial_store.result(broker, order.id)) is None:
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.02)
    return result


@pytest.mark.parametrize("changes,code,named", [
    ({"slot": "7"}, "no_such_slot", "it has 0"),
    ({"task_type": "nothing"}, "unknown_task_type", "nothing"),
    ({"feed": ({"type": "nowhere", "config": {}},)}, "unknown_task_type", "nowhere"),
    ({"feed": ()}, "no_feed", "pi_viete"),
    ({"threads": 9}, "too_few_threads", "have 8"),
    ({"task_type": "replay", "feed": ()}, "not_measurable", "schedule"),
    ({"task_type": "kafka", "feed": (), "approved": True}, "not_measurable", "live source"),
    ({"task_type": "http_post", "config": {"url": "http://h/"}}, "not_approved", "reaches the network"),
    ({"feed": (*ORDER.feed, {"type": "http_get", "config": {"url": "http://h/x"}})}, "not_approved", "http_get"),
    ({"config": {"stands_for": {"secret": "hook", "team": "city"}}}, "not_approved", "a secret"),
])
def test_what_cannot_be_measured_is_refused_with_the_reason(broker, trial_runner, slot, changes, code, named):
    result = come_of(broker, trial_runner, replace(ORDER, **changes))
    assert (result.ok, result.code, result.passing) == (False, code, False)
    assert named in result.message and result.remedy
    assert "begin" not in slot.asked


def test_what_the_site_found_approved_is_measured(broker, trial_runner, slot):
    post = replace(ORDER, task_type="http_post", config={"url": "http://h/"}, approved=True)
    assert come_of(broker, trial_runner, post).ok and "begin" in slot.asked
    assert slot.approved == [True, True, True]  # feed, warming up, the task itself


def test_a_slot_that_runs_something_is_not_measured_on(broker, trial_runner, slot, monkeypatch):
    monkeypatch.setattr(runner_module, "READY_S", 0.0)
    slot.report = {"fragments": {"f3-0": {}, "f1-2": {}}}
    result = come_of(broker, trial_runner, ORDER)
    assert result.code == "slot_busy" and "runs 2 queries" in result.message and slot.asked == []
    assert "f1-2" not in result.message + result.remedy, "whose they are is for their teams to know"


def test_a_slot_whose_last_query_is_still_draining_is_waited_for(broker, trial_runner, slot):
    slot.report = {"fragments": {"f3-0": {"state": "draining"}, "f1-2": {"state": "stopped"}}}
    trial_runner.start()
    trial_store.order(broker, ORDER)
    deadline = time.monotonic() + 120
    while trial_store.progress(broker, ORDER.id) != TrialProgress("taken"):
        assert time.monotonic() < deadline, trial_store.result(broker, ORDER.id)
        time.sleep(0.02)
    slot.report = {"fragments": {"f1-2": {"state": "stopped"}}}  # of a paused dataflow: it rests there
    assert come_of(broker, trial_runner, replace(ORDER, id="t2")).ok and trial_store.result(broker, ORDER.id).ok


def test_what_was_waited_for_is_not_what_a_trial_took(broker, trial_runner, monkeypatch):
    """A sweep's budget is of trials alone."""
    waited = []

    def queries_on(_slot) -> list[str]:
        if waited:
            return []
        waited.append(80.0)
        return ["f3-0"]

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(waited), time_ns=time.time_ns)
    monkeypatch.setattr(runner_module, "time", clock)
    monkeypatch.setattr(runner_module, "queries_on", queries_on)
    result = come_of(broker, trial_runner, ORDER)
    assert result.ok and waited and 0 < result.took_s < 80


def test_what_a_task_says_of_its_failure_is_told_and_the_slot_is_left_clean(broker, trial_runner, slot):
    slot._fails_at = "begin"
    result = come_of(broker, trial_runner, ORDER)
    assert (result.code, result.message, result.remedy) == ("task_failed", "it is broken", "mend it")
    assert slot.asked[-1] == "end"


@pytest.mark.parametrize("forged", [
    {"heap_mb": math.nan}, {"heap_mb": -math.inf}, {"heap_mb": -1.0}, {"heap_mb": 10**400}, {"heap_mb": "much"},
    {"batches": [BATCH | {"planned_s": math.nan}]}, {"batches": [BATCH | {"ended_s": math.inf}]},
    {"batches": [BATCH | {"born_s": 1e300}]}, {"batches": [BATCH | {"events_in": -5}]},
    {"batches": [BATCH | {"events_out": 10**400}]}, {"batches": [BATCH] * 1_001}, {"batches": [[1.0]]},
    {"java": "17" * 1_000}, {"ok": "perhaps"},
])
def test_figures_that_are_none_make_no_result(broker, trial_runner, slot, forged: dict[str, object]):
    slot.forged = forged
    result = come_of(broker, trial_runner, ORDER)
    assert (result.ok, result.code, result.passing) == (False, "unreadable_result", False)
    assert "The slot's answer to '" in result.message and "another slot" in result.remedy


def test_meters_that_count_nothing_are_left_out_of_a_trial(broker, trial_runner, slot):
    meter = keys.meter(f"trial-{ORDER.id}")
    broker.hset(meter, mapping={"0:lat:4": "NaN", "0:lat:5": "9" * 400, b"\xff": 1})
    assert come_of(broker, trial_runner, ORDER).ok


def test_a_trial_has_figures_its_machine_and_its_versions(broker, trial_runner, slot, tmp_path):
    result = come_of(broker, trial_runner, ORDER)
    assert result.ok and (result.threads, result.rate_per_s) == (2, 50.0)
    assert result.latency_slope == 1.0 and result.achieved_per_s == 0.0, "nothing came out of the stand-in"
    assert result.series and result.took_s > 0 and result.machine["class"] and result.versions["type"] == 1
    assert (result.machine["slot_threads"], result.machine["slot_heap_mb"]) == (8, 1024) and not result.held_back
    assert result.versions["weir"] and result.versions["code"] == "c0de", "as the slot tells"
    assert slot.asked.count("feed") == slot.asked.count("hurry") == slot.asked.count("rest") == 1
    assert len(list((tmp_path / "feeds").iterdir())) == 1, "kept for the next trial"


def test_a_damaged_feed_is_made_anew(broker, trial_runner, slot, tmp_path):
    chain = [dict(task) for task in ORDER.feed]
    path = feed.path_of(tmp_path, feed.digest(chain, task_types()))
    path.parent.mkdir()
    path.touch()
    assert come_of(broker, trial_runner, ORDER).ok and slot.asked.count("feed") == 1
    assert feed.read(path).events.num_rows == 50


@pytest.mark.parametrize("slot_mb", [40.0, 30.0])
def test_a_slot_that_its_driver_fills_is_not_measured_on(broker, trial_runner, slot, monkeypatch, slot_mb: float):
    monkeypatch.setattr(trial_module, "slot_memory_mb", lambda slots: slot_mb)
    monkeypatch.setattr(trial_module.TreeLoad, "python_mb", lambda self: 0.0)
    result = come_of(broker, trial_runner, ORDER)
    assert (result.code, result.ok) == ("not_measurable", False) and "begin" not in slot.asked
    assert "40 MiB" in result.message and f"has {slot_mb:.0f}" in result.message and "WEIR_SLOTS" in result.remedy


@pytest.mark.parametrize("at", ["weigh", "feed", "begin", "look"])
def test_nothing_stays_of_a_trial_whose_slot_dies(broker, trial_runner, slot, tmp_path, at: str):
    slot._dies_at = at
    channels = Channels(broker)
    channels.open_channel("trial-t1.in", schema_json="{}", readers=["trial-t1"])
    channels.open_channel("trial-t1-feed.1", schema_json="{}")
    channels.pause("trial-t1")
    checkpoint = tmp_path / "checkpoints" / "trial-t1"
    output = tmp_path / "outputs" / "files-measured" / "trial-t1"
    for folder in (checkpoint, output):
        folder.mkdir(parents=True)
    result = come_of(broker, trial_runner, ORDER)
    assert (result.code, result.passing) == ("slot_died", True)
    assert not checkpoint.exists() and not output.exists() and trial_runner.pids == set()
    left = [key for key in broker.keys("weir:*") if b"trial-t1" in key]
    assert all(0 < broker.ttl(key) <= 60 for key in left), left
    assert not list((tmp_path / "nodes" / "n1" / "trials").iterdir())


@pytest.mark.parametrize("dies_at", ["", "begin", "look"])
def test_files_that_tasks_archive_do_not_outlast_a_trial(broker, trial_runner, slot, tmp_path, dies_at: str):
    """Those of the task and of what is upstream of it; a dataflow's in the same folder do, and below one of its."""
    slot._dies_at, archive = dies_at, {"folder": "logs/daily"}
    archived = ["daily-0123456789ab", "daily-feed-0"]  # a running task has the one; feed-0 writes nothing
    for name in (*archived, "daily-measured", "daily-feed-1", "daily-warm-1"):
        (tmp_path / "outputs" / "logs" / name).mkdir(parents=True)
        (tmp_path / "outputs" / "logs" / name / "000-ab.jsonl").touch()
    below = tmp_path / "outputs" / "logs" / "daily-warm-1" / "hourly-0123456789ab" / "000-ab.jsonl"
    below.parent.mkdir()
    below.touch()
    upstream = (*ORDER.feed, {"type": "file_batches", "config": archive})
    result = come_of(broker, trial_runner, replace(ORDER, task_type="file_batches", config=archive, feed=upstream))
    assert result.code == ("slot_died" if dies_at else "")
    assert sorted(path.name for path in (tmp_path / "outputs" / "logs").iterdir()) == [*archived, "daily-warm-1"]
    assert [path.name for path in below.parent.parent.iterdir()] == ["hourly-0123456789ab"] and below.exists()


def test_what_an_agent_left_that_died_is_cleared_away_by_the_next(broker, trial_runner, tmp_path):
    left = tmp_path / "nodes" / "n1" / "trials" / "trial-old"
    left.parent.mkdir(parents=True)
    of_others = [tmp_path / "beside" / "file", tmp_path / "nodes" / "n2" / "file"]
    for path in of_others:
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "outputs").mkdir(exist_ok=True)
    (tmp_path / "outputs" / "link").symlink_to(tmp_path / "nodes" / "n2")
    broker.hset(b"weir:ch:trial-old.\xff:meta", "x", 1)  # likewise
    left.write_text(json.dumps(["../beside", str(tmp_path / "beside"), "link"]))  # by somebody who broke out
    (tmp_path / "checkpoints" / "trial-old").mkdir(parents=True)
    for channel in ("trial-old.in", "trial-old-feed.0", "trial-old1.in"):
        Channels(broker).open_channel(channel, schema_json="{}")
    trial_runner.start()
    deadline = time.monotonic() + 120
    while left.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left.exists() and not (tmp_path / "checkpoints" / "trial-old").exists()
    assert all(path.exists() for path in of_others)
    assert Channels(broker).info("trial-old.in") is None and not broker.exists(keys.channel("trial-old.in"))
    assert Channels(broker).info("trial-old-feed.0") is None and Channels(broker).info("trial-old1.in") is not None


def test_an_agent_without_slots_leaves_orders_to_the_one_that_serves(broker, broker_url, tmp_path):
    idle = TrialRunner(Settings(redis_url=broker_url, data_dir=tmp_path), slots=list, folder=tmp_path, task_types={},
                       apart=lambda do: do())
    idle.start()
    trial_store.order(broker, ORDER)
    time.sleep(0.4)
    assert trial_store.take(broker, "n1", wait_s=0.05) == ORDER
    idle.stop()
    idle.join(10)


def test_a_cancelled_trial_ends_soon_and_without_a_result(broker, trial_runner, slot):
    trial_runner.start()
    trial_store.order(broker, replace(ORDER, seconds=600.0))
    deadline = time.monotonic() + 120
    while (at := trial_store.progress(broker, "t1")) is None or at.state != "measuring":
        assert time.monotonic() < deadline, at
        time.sleep(0.02)
    trial_store.cancel(broker, "t1")
    assert come_of(broker, trial_runner, replace(ORDER, id="t2")).ok, "the slot is free again"
    assert trial_store.result(broker, "t1") is None and trial_store.progress(broker, "t1") is None


def test_an_order_that_cannot_be_read_does_not_keep_the_next_from_being_served(broker, trial_runner):
    trial_store.order(broker, replace(ORDER, id="odd"))
    [written] = [name for name in broker.keys("weir:*odd*order")]
    broker.set(written, '{"of": "another version"}')
    assert come_of(broker, trial_runner, ORDER).id == ORDER.id
    assert trial_store.result(broker, "odd").code == "unreadable_order"


def test_a_defect_is_told_at_once_and_the_next_order_is_served(broker, trial_runner, slot, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(trial_module, "slot_memory_mb", lambda slots: 1 // 0)
        result = come_of(broker, trial_runner, ORDER)
    assert (result.code, result.passing) == ("agent_stopped", True) and "ZeroDivisionError" in result.message
    assert come_of(broker, trial_runner, replace(ORDER, id="t2")).ok
