"""The samples that follow published dataflows, running: RIoTBench's four from MQTT, beside the same from recordings;
word count, Finance, Traffic and Smart Grid from their generators."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import redis
import yaml

from scheduler.model.documents import read_document
from tests.engine.connectors.rigs import rig_of
from workers.library import registry
from workers.library.model_store import connected, stored_versions
from workers.library.models import apply, read_model
from workers.library.samples import SAMPLES

from .planned import PlannedEstate
from .rig import Rig, catalogue, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1800)]
DATA = Path(os.environ.get("WEIR_SHARED_DATA") or Path(__file__).parents[4] / "shared" / "data") / "riotbench"
QUIET_S = 8.0


class Running(PlannedEstate):
    """Samples on one agent, by plans; a sample's source may be another one."""

    def __init__(self, rig: Rig, mosquitto) -> None:
        super().__init__(rig)
        self.mosquitto = mosquitto

    def begin(self, sample: str, *, sources: dict[str, dict] | None = None, rate_per_s: float = 0.0, **configs) -> str:
        """Submit a sample with sources in the places of its own, and further parameters by task; its name."""
        document = yaml.safe_load((SAMPLES / f"{sample}.yaml").read_text())
        name = document["name"] = f"{sample}-{len(self.estate.submitted)}-{self.estate.generation}"
        for task in document["tasks"]:
            task.setdefault("config", {}).update(configs.get(task["id"], {}))
            if task["id"] in (sources or {}):
                task.update(sources[task["id"]])
            if task["type"] == "output":
                task["config"]["keep_events"] = 1_000_000
        if rate_per_s:
            document["rates"] = {source: rate_per_s for source in document["rates"]}
        dataflow = read_document(
            json.dumps(document), task_types=self.rig.task_types, check_config=registry.check,
            columns_of=registry.columns_of)
        assert self.submit(dataflow, name).price.cores_alone > 0
        self.rig.wait_running(*{place[0] for place in self.estate.places.values()}, within_s=400)
        return name

    def reads(self, name: str, source: str) -> None:
        """Wait until a live source is read."""
        self.rig.wait(lambda: self.hosted("sources", name, source).get("state") == "running", what=f"{source} is read")

    def finished(self, name: str, task: str, *, at_least: int = 1) -> list[dict]:
        """What comes out, once nothing more has come for a while."""
        self.rig.wait(lambda: len(self.output(name, task)) >= at_least, what=f"{at_least} events of {name}")
        events, since = self.output(name, task), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            time.sleep(0.5)
            newer = self.output(name, task)
            if len(newer) != len(events):
                events, since = newer, time.monotonic()
        return events

    def publish(self, topic: str, bodies: list[str]) -> None:
        from paho.mqtt import publish

        publish.multiple([{"topic": topic, "payload": body, "qos": 1} for body in bodies], hostname="127.0.0.1",
                         port=self.mosquitto.port)

    def topic(self, topic: str, **config) -> dict:
        return {"type": "mqtt", "config": {
            "server": f"127.0.0.1:{self.mosquitto.port}", "topics": [topic], "qos": 1, "format": "text", **config}}


def replayed(path: str) -> dict:
    return {"type": "replay", "config": {"path": path}}


@pytest.fixture(scope="module")
def agent(broker_url, tmp_path_factory, with_jar):
    if not DATA.exists():
        pytest.skip("the public data sets are not here: set WEIR_SHARED_DATA")
    with rig_of("mqtt") as mosquitto, redis.Redis.from_url(broker_url) as client, pytest.MonkeyPatch.context() as patch:
        client.flushall()
        environment = {**mosquitto.environment, "WEIR_REPLAY_DIRS": str(DATA)}
        for name, value in environment.items():
            patch.setenv(name, value)
        with running_agent(client, broker_url, with_jar(tmp_path_factory.mktemp("data")), task_types=catalogue(),
                           **environment) as rig:
            rig.wait_serving()
            yield rig, mosquitto
        client.flushall()


@pytest.fixture
def running(agent):
    rig, mosquitto = agent
    mosquitto.anew()
    flows = Running(rig, mosquitto)
    yield flows
    for name in list(flows.estate.submitted):
        flows.remove(name)
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="all is gone")


def lines_of(file: str) -> list[str]:
    return [line for line in (DATA / file).read_text().splitlines() if line]


def stations() -> list[str]:
    return sorted({entry["sv"] for line in lines_of("SYS_sample_data_senml.csv")
                   for entry in json.loads(line.partition(",")[2])["e"] if entry["n"] == "source"})


def both(
    running: Running, sample: str, source: str, output: str, file: str, *, at_least: int, **configs
) -> tuple[list[dict], list[dict]]:
    """What a sample makes of a recording, and of the same lines over MQTT."""
    name = running.begin(sample, sources={source: replayed(file)}, rate_per_s=200.0, **configs)
    recorded = running.finished(name, output, at_least=at_least)
    running.remove(name)
    name = running.begin(sample, sources={source: running.topic(f"{sample}/#")}, parse={"field": "value"}, **configs)
    running.reads(name, source)
    running.publish(f"{sample}/new", lines_of(file))
    return recorded, running.finished(name, output, at_least=at_least)


def entries(event: dict) -> list:
    return json.loads(event["senml"].partition(",")[2])["e"]


def test_etl_makes_of_mqtt_what_it_makes_of_the_recording(running):
    recorded, live = both(running, "urban_etl", "stations", "publish", "SYS_sample_data_senml.csv", at_least=900,
                          known={"prefix": None, "count": None, "members": stations()})
    assert len(live) == len(lines_of("SYS_sample_data_senml.csv"))
    assert [entries(event) for event in live] == [entries(event) for event in recorded]
    assert all({"location", "type", "temperature"} <= {entry["n"] for entry in entries(event)} for event in live[50:])


def test_stats_makes_of_mqtt_the_series_of_the_recording(running):
    recorded, live = both(
        running, "urban_stats_plots", "stations", "publish", "SYS_sample_data_senml.csv", at_least=100,
        average={"window": 1}, plot={"window": 1})  # each line of the recording is of a station of its own

    def series(events):
        by_series = defaultdict(list)
        for event in events:
            by_series[event["series"], event["sensor_id"], event["obs"]].append(event["values"])
        return by_series

    assert series(live) == series(recorded)
    assert {key[0] for key in series(live)} == {"average", "stations"}  # a forecast needs a station's past
    assert all(len(event["values"]) == 1 and event["file"] for event in live)


def versions(events: list[dict]) -> Counter:
    return Counter((event["version"], event["events"], event["fit"]) for event in events)


def test_train_and_predictions_over_mqtt(running, broker_url):
    recorded, live = both(running, "taxi_train", "trips", "announce", "TAXI_sample_data_senml.csv", at_least=10)
    assert versions(live) == versions(recorded), "the same trips give the same models"
    models = [read_model(event["model"]) for event in live]
    assert {model["name"] for model in models} == {"taxi-fares", "taxi-classes"}
    assert all(event["fit"] > 0.8 for event in live), [event["fit"] for event in live]
    with connected(broker_url) as client:
        stored = stored_versions(client, "city")
    assert {name: stored[name][0].version for name in stored} == {
        name: [model["version"] for model in models if model["name"] == name][-1] for name in stored}

    for name in list(running.estate.submitted):
        running.remove(name)
    announced = {model["kind"]: model for model in models}  # the newest of each
    predicted_live(running, announced)


def predicted_live(running: Running, announced: dict[str, dict]) -> None:
    """PRED: trips from one topic, models from another, as published."""
    document = yaml.safe_load((SAMPLES / "taxi_predictions.yaml").read_text())
    learning = {"table", "fares", "annotate", "classes"}
    document["tasks"] = [task for task in document["tasks"] if task["id"] not in learning]
    document["streams"] = [stream for stream in document["streams"] if not {*stream.values()} & learning]
    document["tasks"].append({"id": "models", **running.topic("models/#", format="json", columns=["model"])})
    document["streams"].append({"from": "models", "to": "download"})
    by_id = {task["id"]: task for task in document["tasks"]}
    by_id["trips"].update(running.topic("trips/#"))
    by_id["parse"]["config"]["field"] = "value"
    by_id["publish"]["config"]["keep_events"] = 1_000_000
    document["rates"] = {"trips": 100, "models": 0.1}
    dataflow = read_document(json.dumps(document), task_types=running.rig.task_types, check_config=registry.check,
                             columns_of=registry.columns_of)
    running.submit(dataflow, "pred")
    running.rig.wait_running(*{place[0] for place in running.estate.places.values()}, within_s=400)
    for source in ("trips", "models"):
        running.reads("pred", source)
    running.publish("models/new", [json.dumps({"model": json.dumps(model)}) for model in announced.values()])
    trips = lines_of("TAXI_sample_data_senml.csv")
    sent = 0

    def knows_the_models() -> bool:
        nonlocal sent
        running.publish("trips/new", trips[:1])
        sent += 1
        time.sleep(1)
        events = running.output("pred", "publish")
        return any(event.get("predicted") for event in events) and any(
            event.get("expected") is not None for event in events)

    running.rig.wait(knows_the_models, what="models are there")
    running.publish("trips/new", trips)
    events = running.finished("pred", "publish", at_least=2 * len(trips))
    classes = [event for event in events if event.get("expected") is None]
    errors = [event for event in events if event.get("expected") is not None]
    assert len(classes) == sent + len(trips) and len(trips) - 5 <= len(errors) <= sent + len(trips)
    tree, line = announced["decision_tree_classifier"], announced["linear_regression"]
    for event in classes[sent:]:
        values = [event[feature] for feature in tree["features"]]
        if None not in values:
            assert (event["predicted"], event["version"]) == (apply(tree, values), tree["version"])
    expected = [
        apply(line, [event[feature] for feature in line["features"]]) for event in classes[sent:]
        if event["fare_amount"] is not None]
    assert [event["expected"] for event in errors[-len(expected):]] == pytest.approx(expected)
    assert all(event["error"] == pytest.approx(event["actual"] - event["expected"]) for event in errors)
    assert sum(abs(event["error"]) for event in errors[-900:]) / 900 < 3, "fares of some ten dollars"
    assert all(event["average"] for event in errors[-900:])


@pytest.mark.parametrize("sample,output,source,rate_per_s,sound", [
    ("word_count", "counts", "sentences", 50.0, lambda events: Counter(
        event["word"] for event in events).keys() >= {"the", "a"} and all(
            event["times"] > 0 and event["window_end"] - event["window_start"] == 10_000 for event in events)),
    ("finance", "bargains", "market", 200.0, lambda events: all(
        event["best"] > 0 and event["offers"] > 0 and event["symbol"].startswith("S") for event in events)),
    ("traffic", "traffic", "taxis", 60.0, lambda events: (
        {"archived": any(event.get("file") for event in events),
         "city": any(event.get("city_speed") for event in events),
         "known": any(event.get("taxi_company") for event in events),
         "slow": any(event.get("mean_speed") for event in events)} == dict.fromkeys(
             ("archived", "city", "known", "slow"), True)
        and all(event["mean_speed"] < 23 for event in events if event.get("mean_speed")))),
    ("smart_grid", "requests", "meters", 60.0, lambda events: (
        {event.get("basis") for event in events} >= {"average", "forecast", "grid"}
        and any(event.get("file") for event in events)
        and all(event["curtail"] == (event["kwh"] > 10) for event in events if event.get("basis")))),
])
def test_an_application_runs_and_what_comes_out_makes_sense(sample, output, source, rate_per_s, sound, running):
    name = running.begin(sample, rate_per_s=rate_per_s)
    running.rig.wait(lambda: (events := running.output(name, output)) and len(events) > 20 and sound(events),
                     within_s=300, what=f"{sample} makes sense")
    failed = {fragment: state for slot in running.rig.report()["slots"].values()
              for fragment, state in slot["fragments"].items() if state["error"]}
    assert failed == {}
