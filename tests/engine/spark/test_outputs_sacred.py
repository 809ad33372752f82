"""Outputs are sacred: what a dataflow delivers merged, through a killed slot and the other's removal, equals alone.

RIoTBench's ETL and STATS over one finite replayed source, on a real agent, slots and channels.
"""

import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from scheduler.applying import apply_plan
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.planning import plan_removal, plan_submission
from scheduler.step_kinds import EnactmentEvidence, steps_done
from workers.library.registry import task_types

from .recording import EVENTS, recorded  # noqa: F401
from .rig import NODE, Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(600), pytest.mark.usefixtures("afterwards_nothing")]

# The same first tasks, then ETL's clean-up of messages and STATS' three statistics, as RIoTBench joins them.
ETL = """
name: ETL
visibility: {visibility}
tasks:
  - {{id: spout, type: replay, config: {{path: sys.senml, format: senml}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - id: range
    type: range_filter
    config:
      outside: blank
      ranges: {{temperature: [-12.5, 43.1], humidity: [10.7, 95.2], light: [0, 26282], dust: [186.61, 5188.21]}}
  - {{id: known, type: bloom_filter, config: {{members: {members}}}}}
  - {{id: interpolate, type: interpolate, config: {{window: 5}}}}
  - {{id: join, type: join_by_message}}
  - {{id: annotate, type: annotate}}
  - {{id: senml, type: csv_to_senml}}
  - {{id: publish, type: output, config: {{name: etl, keep_events: 1000000}}}}
streams:
  - {{from: spout, to: parse}}
  - {{from: parse, to: range}}
  - {{from: range, to: known}}
  - {{from: known, to: interpolate}}
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
  - {{id: average, type: block_average, config: {{window: 3}}}}
  - {{id: kalman, type: kalman_filter}}
  - {{id: predict, type: sliding_linear_regression, config: {{train: 3, predict: 2, every: 2}}}}
  - {{id: distinct, type: distinct_count}}
  - {{id: publish, type: output, config: {{name: stats, keep_events: 1000000}}}}
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
APART_PER_S, APART_MS = 400.0, 1_000
PACES_MS = (700, 1_400, 2_100)  # a batch costs the same however few its events are, and there are many queries


@pytest.fixture(autouse=True)
def reads_recordings(replayed, monkeypatch):
    """What is submitted here may name what slots may read."""
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(replayed))


def members(replayed: Path) -> str:
    """Nine of ten stations are known."""
    stations = sorted(set(re.findall(r'"sv":\s*"([^"]+)"', (replayed / "sys.senml").read_text())))
    return json.dumps([station for number, station in enumerate(stations) if number % 10])


def submitted(
    replayed: Path, *, rate_per_s: float, visibility: str, teams: dict[str, str], generation: int
) -> Estate:
    """An estate in which both dataflows have been approved before anything starts. Each generation starts anew."""
    estate = Estate(generation=generation, slots=(Slot(NODE, 0), Slot(NODE, 1)))
    for name, text in DOCUMENTS.items():
        text = text.format(rate_per_s=rate_per_s, visibility=visibility, members=members(replayed))
        dataflow = read_document(text, task_types=task_types())
        plan = plan_submission(
            estate, dataflow, dataflow_id=name, team=teams[name], task_types=task_types(), prices=Prices()
        )
        estate = apply_plan(estate, plan)
    return estate


def output_channel(estate: Estate, dataflow_id: str) -> str:
    fragment, position = estate.places[estate.submitted[dataflow_id].running["publish"]]
    return f"{fragment}.{position}"


def delivered(events: list[dict]) -> dict[str, list[str]]:
    """Events by the branch that they came on, in their order: all columns but the moment of their birth.

    Branches interleave at STATS' sink as they come; within a branch the order is the stream's.
    """
    branches: dict[str, list[str]] = {}
    for event in events:
        shown = {name: value for name, value in event.items() if name != "_born"}
        branches.setdefault(branch_of(event), []).append(json.dumps(shown, sort_keys=True))
    return branches


def branch_of(event: dict) -> str:
    """ETL has one branch; of STATS' three, forecasts have a step, averages a sensor, counts neither."""
    if "senml" in event:
        return "etl"
    if event["step"] is not None:
        return "predict"
    return "average" if event["sensor_id"] is not None else "distinct"


def came_through(rig: Rig, estate: Estate) -> bool:
    """Whether all that was replayed has been worked off, as the checkpoints say: every source has sent its last event,
    and every fragment has committed the newest block of each channel that it reads."""
    for fragment in estate.fragments.values():
        offsets = committed_offsets(rig.data_dir / "checkpoints" / fragment.id)
        parents = estate.tasks[fragment.tasks[0]].parents
        if not parents and offsets.get("next") != EVENTS:
            return False
        for parent in parents:
            channel = estate.channel_of(parent)
            if offsets.get(channel) != rig.channels.info(channel).last:
                return False
    return True


def committed_offsets(checkpoint: Path) -> dict:
    """Offsets of the newest batch of a query where that batch is committed."""
    batches = {what: sorted(int(path.name) for path in (checkpoint / what).glob("[0-9]*")) for what in
               ("offsets", "commits")}
    if not batches["offsets"] or batches["offsets"][-1:] != batches["commits"][-1:]:
        return {}
    _version, _metadata, *sources = (checkpoint / "offsets" / str(batches["offsets"][-1])).read_text().splitlines()
    return {name: offset for source in sources for name, offset in json.loads(source).items()}


def run_apart(rig: Rig, replayed: Path, *, generation: int) -> dict[str, list[dict]]:
    """Each dataflow as if the other did not exist: private to teams of their own, nothing is shared."""
    teams = {"etl": "a", "stats": "b"}
    estate = submitted(replayed, rate_per_s=APART_PER_S, visibility="private", teams=teams, generation=generation)
    assert not set(estate.submitted["etl"].running.values()) & set(estate.submitted["stats"].running.values())
    channels = {name: output_channel(estate, name) for name in DOCUMENTS}
    with rig.collecting(*channels.values()) as collected:
        rig.paces_ms = dict.fromkeys(estate.fragments, APART_MS)
        rig.publish(estate)
        rig.wait_running(*estate.fragments)
        rig.wait(lambda: came_through(rig, estate), what="everything came through")
    rig.paces_ms = {}
    rig.publish(Estate(slots=estate.slots))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")
    return {name: collected[channel] for name, channel in channels.items()}


def run_merged(
    rig: Rig, replayed: Path, alone: dict[str, list[dict]], *,
    lasts_s: float, generation: int, removed: str, killed: str,
) -> dict[str, list[dict]]:
    """Both on shared tasks: early on a slot is killed, and once both deliver again one of them is removed.

    All the while every query gets other intervals between its batches, as if limits, rates and costs changed.
    """
    rate_per_s = round(EVENTS / lasts_s, 1)
    teams = {"etl": "a", "stats": "b"}
    estate = submitted(replayed, rate_per_s=rate_per_s, visibility="shared", teams=teams, generation=generation)
    shared = set(estate.submitted["etl"].running.values()) & set(estate.submitted["stats"].running.values())
    assert len(shared) == 2, "replay and parse run once for both"
    channels = {name: output_channel(estate, name) for name in DOCUMENTS}
    patient = partial(rig.wait, within_s=240 + lasts_s)
    with rig.collecting(*channels.values()) as collected, rig.repacing(seed=generation, paces_ms=PACES_MS):

        def deliver_beyond(counts: dict[str, float]) -> bool:
            return all(len(collected[channels[name]]) > count for name, count in counts.items())

        rig.publish(estate)
        rig.wait_running(*estate.fragments)
        tenth = {name: 0.1 * len(events) for name, events in alone.items()}
        patient(lambda: deliver_beyond(tenth), what="a tenth of the output")
        pid = rig.slot_pid(killed)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(killed) not in (None, pid), what="the slot is back")

        back = {name: len(collected[channel]) for name, channel in channels.items()}
        # Where the recording ended before the slot was back, one of them has nothing more to deliver.
        patient(lambda: deliver_beyond(back) or came_through(rig, estate), what="both deliver again")
        plan = plan_removal(estate, removed, task_types=task_types(), prices=Prices())
        left = apply_plan(estate, plan)
        rig.publish(left)
        rig.wait(lambda: steps_done(plan, EnactmentEvidence(rig.reports())) == {step.key for step in plan.steps})
        patient(lambda: came_through(rig, left), what="everything came through")
    return {name: collected[channel] for name, channel in channels.items()}


@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(
    ("removed", "killed"), [("etl", "0"), pytest.param("stats", "1", marks=pytest.mark.long)]
)
def test_merged_killed_and_parted_they_deliver_what_they_deliver_alone(rig, replayed, removed, killed):
    first = 0 if killed == "0" else 10_000  # the agent keeps checkpoints for a while, by names that have generations
    alone = run_apart(rig, replayed, generation=first)
    assert set(delivered(alone["stats"])) == {"predict", "average", "distinct"}
    assert len(alone["etl"]) > EVENTS / 2 and len(alone["stats"]) > EVENTS / 2
    [survivor] = DOCUMENTS.keys() - {removed}

    # The slot has to be back well before the recording ends; a machine that is slower than it looked gets more time.
    for longer in (1, 2, 4):
        merged = run_merged(
            rig, replayed, alone, lasts_s=max(30.0, 3 * rig.slot_start_s) * longer, generation=first + 1_000 * longer,
            removed=removed, killed=killed)
        assert delivered(merged[survivor]) == delivered(alone[survivor])
        # The one that left got everything until it left, and nothing else.
        for branch, events in delivered(merged[removed]).items():
            assert events == delivered(alone[removed])[branch][: len(events)]
        if len(merged[removed]) < len(alone[removed]):
            break
    else:
        pytest.fail("it was never removed before the end")
