"""Models that are learned and applied, and functions of packages, on slots that die at random moments: what comes out
is event by event what comes out where nothing dies."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from scheduler.model.documents import read_document
from tests.library.package import install_package
from workers.library import registry
from workers.library.config import settings
from workers.library.model_store import ModelName, StoredVersion, connected, store_version, stored_versions
from workers.library.models import apply, read_model
from workers.library.train import TRAIN, learner

from .planned import PlannedEstate
from .recording import EVENTS
from .rig import Rig, catalogue, running_agent
from .test_outputs_sacred import came_through

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(2_400)]
FEATURES = ["distance", "seconds"]
LEARNS = {"features": FEATURES, "target": "fare", "window": 100, "every": 40, "model": "fares", "keep": 3}
TEAMS = {"whole": "city", "killed": "port"}
KEEP = {"keep_events": 1_000_000}
KILLS = 6


def trips() -> dict[str, list]:
    """Columns of a recording. Fares follow from the rest, other than before from its middle on."""
    seqs = range(EVENTS)
    distance = [(seq * 37 % 101) / 10 for seq in seqs]
    seconds = [float(seq * 53 % 1800) for seq in seqs]
    fare = [None if seq % 17 == 3 else (2.5 if seq < EVENTS / 2 else 4.0) + 1.5 * distance[seq] + 0.01 * seconds[seq]
            for seq in seqs]
    at = [datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=seq) for seq in seqs]
    return {"distance": distance, "seconds": seconds, "fare": fare, "sensor": [f"s{seq % 3}" for seq in seqs],
            "value": [None if seq % 7 == 3 else seq / 4 for seq in seqs], "at": at}


def learned(columns: dict[str, list]) -> list[tuple]:
    """What ``train`` makes of all trips: (seq, model, version) of each model."""
    fold = learner(settings(TRAIN, LEARNS))
    state, models = fold.start(), []
    for seq, row in enumerate(zip(columns["fare"], *(columns[name] for name in FEATURES), strict=True)):
        models += [(given[0], given[3], given[4]) for given in fold.step(state, seq, seq, seq, *row)]
    return models


def interleaved(columns: dict[str, list]) -> dict[str, list]:
    """As many events: trips, and where a model was learned it instead of the trip."""
    mixed = {name: list(columns[name]) for name in FEATURES} | {"model": [None] * EVENTS}
    for seq, model, _version in learned(columns):
        for name in FEATURES:
            mixed[name][seq] = None
        mixed["model"][seq] = model
    return mixed


def document(*, rate_per_s: float, version: str) -> str:
    """Models are learned and stored; trips are predicted by those that come, by one that is stored, and by those of a
    recording that holds both; and functions of a package work on them, one with a state for each sensor."""
    function = {"version": "1.2"}
    tasks = {
        "trips": ("replay", {"path": "trips.parquet", "time_column": "at"}, []),
        "mixed": ("replay", {"path": "mixed.parquet", "time_column": "at"}, []),
        "train": ("train", LEARNS, ["trips"]),
        "live": ("predict", {"features": FEATURES}, ["trips", "train"]),
        "stored": ("predict", {"features": FEATURES, "model": "given", "version": version}, ["trips"]),
        "recorded": ("predict", {"features": FEATURES}, ["mixed"]),
        "doubled": ("python", {**function, "function": "sensors.checks:doubled", "arguments": {"above": 1.0},
                               "columns": ["twice:double", "sensor"]}, ["trips"]),
        "counted": ("python_by_key", {**function, "function": "sensors.checks:counted", "by": ["sensor"],
                                      "reads": ["value", "at"],
                                      "columns": ["count:bigint", "largest:double", "at:timestamp"]}, ["trips"]),
    }
    outputs = {f"{task}_out": ("output", {"name": task, **KEEP}, [task]) for task in list(tasks)[2:]}
    tasks |= outputs
    return json.dumps({
        "name": "learning", "visibility": "private",
        "tasks": [{"id": name, "type": kind, "config": config} for name, (kind, config, _) in tasks.items()],
        "streams": [{"from": parent, "to": name} for name, (_, _, parents) in tasks.items() for parent in parents],
        "rates": {"trips": rate_per_s, "mixed": rate_per_s}})


OUTPUTS = ("train", "live", "stored", "recorded", "doubled", "counted")


@pytest.fixture(scope="module")
def rig(broker_url, tmp_path_factory, with_jar) -> Iterator[Rig]:
    """An agent with two slots, which may use the package and replay the recordings."""
    recordings = tmp_path_factory.mktemp("replay")
    columns = trips()
    for name, table in (("trips", columns), ("mixed", interleaved(columns))):
        pq.write_table(pa.table(table | {"at": columns["at"]}), recordings / f"{name}.parquet")
    with pytest.MonkeyPatch.context() as patch, redis.Redis.from_url(broker_url) as client:
        package = install_package(tmp_path_factory.mktemp("packages"), patch)
        patch.setenv("WEIR_REPLAY_DIRS", str(recordings))
        patch.setenv("REDIS_URL", broker_url)
        client.flushall()
        with running_agent(client, broker_url, with_jar(tmp_path_factory.mktemp("data")), slots=2, plugin=package,
                           task_types=catalogue()) as rig:
            began_s = time.monotonic()
            rig.wait_serving()
            rig.slot_start_s = time.monotonic() - began_s
            yield rig
        client.flushall()


@pytest.fixture
def given(rig, broker_url) -> tuple[str, str]:
    """A model that both teams keep: its version and what it says."""
    _seq, text, version = learned(trips())[0]
    with connected(broker_url) as client:
        for team in TEAMS.values():
            store_version(client, ModelName(team, "given"), StoredVersion(version, 0, text), keep=3)
    return version, text


class Learning(PlannedEstate):
    """The dataflow as one team submits it, and what comes of it."""

    def __init__(self, rig: Rig, team: str, *, rate_per_s: float, version: str) -> None:
        super().__init__(rig)
        self.name = f"{team}-{self.estate.generation}"
        dataflow = read_document(
            document(rate_per_s=rate_per_s, version=version), task_types=rig.task_types, check_config=registry.check,
            columns_of=registry.columns_of)
        self.submit(dataflow, self.name, team=team)

    def came_through(self) -> bool:
        """Twice, for what was read first may have got more while the rest was read."""
        return came_through(self.rig, self.estate) and came_through(self.rig, self.estate)

    def outputs(self) -> dict[str, list[dict]]:
        """What came out of each, but for when the events were born."""
        return {
            task: [{name: value for name, value in event.items() if name != "_born"}
                   for event in self.output(self.name, f"{task}_out")] for task in OUTPUTS}

    def end(self) -> dict[str, list[dict]]:
        """What came out in all; nothing runs afterwards."""
        self.rig.wait(self.came_through, within_s=400, what="everything came through")
        outputs = self.outputs()
        self.remove(self.name)
        self.rig.wait(lambda: not any(slot["fragments"] for slot in self.rig.report()["slots"].values()),
                      what="nothing runs")
        return outputs


def killed_at_random(learning: Learning, chance: random.Random) -> int:
    """Kill one slot after the other, soon after it or another one is back; how often events were still to come."""
    rig = learning.rig
    for kills in range(KILLS):
        if kills % 2 == 0:  # else it may be in the middle of its start
            rig.wait_running(*learning.estate.fragments)
        time.sleep(chance.uniform(0, 4))
        if learning.came_through():
            return kills
        slot = chance.choice("01")
        pid = rig.wait(lambda: rig.slot_pid(slot), what="a slot to kill")  # noqa: B023
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="the slot is back")  # noqa: B023
    return KILLS


def check_live(events: list[dict], models: list[tuple]) -> None:
    """Where models come on a way of their own, which trip each of them meets first is left to chance; nothing else.

    What follows from the order of models and trips is that of the recording which holds both.
    """
    assert [event["_seq"] for event in events] == list(range(EVENTS))
    numbers = {version: number for number, (_, _, version) in enumerate(models)} | {None: -1}
    assert all(numbers[one["version"]] <= numbers[other["version"]] for one, other in pairwise(events))
    texts = {version: read_model(model) for _, model, version in models}
    for event in events:
        if event["version"] is None:
            assert (event["predicted"], event["problem"]) == (None, "no model yet")
        else:
            predicted = apply(texts[event["version"]], [event[name] for name in FEATURES])
            assert event["predicted"] == pytest.approx(predicted) and event["problem"] is None


@pytest.mark.parametrize("seed", range(2))
def test_models_predictions_and_functions_are_those_of_an_undisturbed_run(rig, broker_url, given, seed):
    version, text = given
    with connected(broker_url) as client:
        for team in TEAMS.values():
            client.delete(*(ModelName(team, "fares").key + part for part in ("", ":texts")))
    whole = Learning(rig, TEAMS["whole"], rate_per_s=100.0, version=version).end()
    assert [event["version"] for event in whole["train"]] == [model[2] for model in learned(trips())]
    assert {name: len(whole[name]) for name in ("stored", "recorded")} == {
        "stored": EVENTS, "recorded": EVENTS - len(whole["train"])}
    assert len({event["version"] for event in whole["recorded"]}) == len(whole["train"]) + 1
    assert whole["stored"][5]["predicted"] == pytest.approx(
        apply(read_model(text), [whole["stored"][5][name] for name in FEATURES]))
    assert whole["counted"][-1]["count"] >= EVENTS // 3 and len(whole["doubled"]) > EVENTS / 2

    for longer in (1, 2, 4):
        rate_per_s = EVENTS / (KILLS * (rig.slot_start_s + 4) * longer)
        learning = Learning(rig, TEAMS["killed"], rate_per_s=rate_per_s, version=version)
        kills = killed_at_random(learning, random.Random(seed + 10 * longer))
        killed = learning.end()
        assert any(event["version"] for event in killed["live"]), "trips came for longer than the first model took"
        for outputs in (whole, killed):
            check_live(outputs.pop("live"), learned(trips()))
        for name, events in killed.items():
            assert events == whole[name], name
        whole["live"] = killed["live"] = []
        if kills == KILLS:
            break
    else:
        pytest.fail("everything came through before the last kill")
    with connected(broker_url) as client:
        stored = {team: stored_versions(client, team)["fares"] for team in TEAMS.values()}
    in_store = {team: [(one.version, one.text) for one in versions] for team, versions in stored.items()}
    newest = [(event["version"], event["model"]) for event in reversed(whole["train"][-LEARNS["keep"]:])]
    assert in_store == dict.fromkeys(TEAMS.values(), newest)
