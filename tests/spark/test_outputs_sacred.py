"""Outputs are sacred: what a dataflow delivers merged, through a killed slot and the other's removal, equals alone.

RIoTBench's ETL and STATS over one finite replayed source, on a real agent, slots and channels.
"""

import json
import os
import random
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from scheduler.model.documents import read_document
from scheduler.model.estate import Estate, Slot
from scheduler.planning import Prices, apply_plan, plan_removal, plan_submission
from workers.library.registry import task_types
from workers.observed import steps_done

from .rig import NODE, Rig, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EVENTS = 1_000
OBSERVED = ("temperature", "humidity", "light", "dust", "airquality_raw")

# The same first tasks, then ETL's clean-up of messages and STATS' three statistics, as RIoTBench joins them.
ETL = """
name: ETL
visibility: {visibility}
tasks:
  - {{id: spout, type: replay, config: {{path: sys.senml, format: senml}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - {{id: range, type: range_filter}}
  - {{id: interpolate, type: interpolate, config: {{window: 5}}}}
  - {{id: join, type: join_by_message}}
  - {{id: annotate, type: annotate}}
  - {{id: senml, type: csv_to_senml}}
  - {{id: publish, type: output, config: {{name: etl}}}}
streams:
  - {{from: spout, to: parse}}
  - {{from: parse, to: range}}
  - {{from: range, to: interpolate}}
  - {{from: interpolate, to: join}}
  - {{from: join, to: annotate}}
  - {{from: annotate, to: senml}}
  - {{from: senml, to: publish}}
rates: {{spout: {rate_per_s}}}
"""
STATS = """
name: STATS
visibility: {visibility}
tasks:
  - {{id: spout, type: replay, config: {{path: sys.senml, format: senml}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - {{id: average, type: block_average, config: {{window: 10}}}}
  - {{id: kalman, type: kalman_filter}}
  - {{id: predict, type: sliding_linear_regression}}
  - {{id: distinct, type: distinct_count}}
  - {{id: publish, type: output, config: {{name: stats}}}}
streams:
  - {{from: spout, to: parse}}
  - {{from: parse, to: average}}
  - {{from: parse, to: kalman}}
  - {{from: kalman, to: predict}}
  - {{from: parse, to: distinct}}
  - {{from: average, to: publish}}
  - {{from: predict, to: publish}}
  - {{from: distinct, to: publish}}
rates: {{spout: {rate_per_s}}}
"""
DOCUMENTS = {"etl": ETL, "stats": STATS}


def recorded(shared_data: Path) -> str:
    """A city's real sensor events where they are here, else as many made up."""
    real = shared_data / "riotbench" / "SYS_sample_data_senml.csv"
    if real.exists():
        return real.read_text()
    chance = random.Random(7)
    lines = []
    for number in range(EVENTS):
        time_ms = 1_422_748_800_000 + 60_000 * (number // 10)
        readings = [{"n": "source", "u": "string", "sv": f"station-{number % 10}"}]
        readings += [{"n": name, "u": "", "v": str(round(chance.uniform(0, 60), 1))} for name in OBSERVED]
        lines.append(f"{time_ms}," + json.dumps({"e": readings, "bt": time_ms}))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    shared = Path(os.environ.get("WEIR_SHARED_DATA") or ROOT.parent / "shared" / "data")
    (folder / "sys.senml").write_text(recorded(shared))
    return folder


@pytest.fixture
def rig(broker: redis.Redis, broker_url, tmp_path, replayed, monkeypatch):
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(replayed))
    (tmp_path / "data").mkdir()
    with running_agent(
        broker, broker_url, tmp_path / "data", slots=2, task_types=task_types(), WEIR_REPLAY_DIRS=str(replayed)
    ) as rig:
        yield rig


def submitted(*, rate_per_s: float, visibility: str, teams: dict[str, str]) -> Estate:
    """An estate in which both dataflows have been approved before anything starts."""
    estate = Estate(slots=(Slot(NODE, 0), Slot(NODE, 1)))
    for name, text in DOCUMENTS.items():
        dataflow = read_document(text.format(rate_per_s=rate_per_s, visibility=visibility), task_types=task_types())
        plan = plan_submission(
            estate, dataflow, dataflow_id=name, team=teams[name], task_types=task_types(), prices=Prices()
        )
        estate = apply_plan(estate, plan)
    return estate


def output_channel(estate: Estate, dataflow_id: str) -> str:
    fragment, position = estate.places[estate.submitted[dataflow_id].running["publish"]]
    return f"{fragment}.{position}"


def delivered(events: list[dict]) -> Counter:
    """Events as they count: all columns but the moment of their birth."""
    return Counter(
        json.dumps({name: value for name, value in event.items() if name != "_born"}, sort_keys=True)
        for event in events
    )


def quiet(rig: Rig, collected: dict[str, list[dict]], estate: Estate) -> bool:
    """Whether everything that was replayed has come through: every fragment has nothing more to count."""
    counts = [len(events) for events in collected.values()] + [
        sum(value for name, value in rig.channels.meters(fragment).items() if name.endswith(":n"))
        for fragment in estate.fragments
    ]
    before, rig.counted = getattr(rig, "counted", None), (counts, getattr(rig, "counted", (None, 0))[1])
    same = before is not None and before[0] == counts and all(collected.values())
    rig.counted = (counts, rig.counted[1] + 1 if same else 0)
    return rig.counted[1] >= 60  # looks, each after 50 ms at least


def run_apart(rig: Rig) -> dict[str, list[dict]]:
    """Each dataflow as if the other did not exist: private to teams of their own, nothing is shared."""
    estate = submitted(rate_per_s=200.0, visibility="private", teams={"etl": "a", "stats": "b"})
    assert not set(estate.submitted["etl"].running.values()) & set(estate.submitted["stats"].running.values())
    channels = {name: output_channel(estate, name) for name in DOCUMENTS}
    with rig.collecting(*channels.values()) as collected:
        rig.publish(estate)
        rig.wait_running(*estate.fragments, within_s=120)
        rig.wait(lambda: quiet(rig, collected, estate), within_s=240, what="everything came through")
    rig.publish(Estate(slots=estate.slots))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")
    return {name: collected[channel] for name, channel in channels.items()}


@pytest.mark.parametrize(
    ("removed", "killed"), [("etl", "0"), pytest.param("stats", "1", marks=pytest.mark.long)]
)
def test_merged_killed_and_parted_they_deliver_what_they_deliver_alone(rig, removed, killed):
    alone = run_apart(rig)
    assert len(alone["etl"]) > EVENTS / 2 and len(alone["stats"]) > EVENTS / 2
    [survivor] = DOCUMENTS.keys() - {removed}

    estate = submitted(rate_per_s=12.0, visibility="shared", teams={"etl": "a", "stats": "b"})
    estate = replace(estate, fragments=dict(estate.fragments))
    shared = set(estate.submitted["etl"].running.values()) & set(estate.submitted["stats"].running.values())
    assert len(shared) == 2, "replay and parse run once for both"
    channels = {name: output_channel(estate, name) for name in DOCUMENTS}
    with rig.collecting(*channels.values()) as collected:
        rig.publish(estate)
        rig.wait_running(*estate.fragments, within_s=120)
        share = {name: (lambda name=name: len(collected[channels[name]]) / len(alone[name])) for name in DOCUMENTS}

        rig.wait(lambda: share[survivor]() >= 0.5, within_s=180, what="half of the output")
        pid = rig.slot_pid(killed)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(killed) not in (None, pid), what="the slot is back")

        rig.wait(lambda: share[survivor]() >= 2 / 3 and share[removed]() >= 0.5, within_s=180, what="two thirds")
        plan = plan_removal(estate, removed, task_types=task_types(), prices=Prices())
        left = apply_plan(estate, plan)
        rig.publish(left)
        rig.wait(lambda: steps_done(plan, {NODE: rig.report()}) == {step.key for step in plan.steps}, within_s=120)
        rig.wait(lambda: quiet(rig, collected, left), within_s=240, what="everything came through")

    merged = {name: collected[channel] for name, channel in channels.items()}
    assert delivered(merged[survivor]) == delivered(alone[survivor])
    # The one that left got everything up to the last event that it got, and nothing else; branches that interleave at
    # its sink may have come to different events.
    assert len(merged[removed]) < len(alone[removed]), "it was removed before the end"
    for branch in {branch_of(event) for event in alone[removed]}:
        got = [event for event in merged[removed] if branch_of(event) == branch]
        last_seq = max(event["_seq"] for event in got)
        until_then = [e for e in alone[removed] if branch_of(e) == branch and e["_seq"] <= last_seq]
        assert delivered(got) == delivered(until_then)
