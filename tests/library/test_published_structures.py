"""Samples that follow published dataflows have their structure, task for task."""

from __future__ import annotations

import json
import os
from pathlib import Path

import networkx as nx
import pytest
import yaml

from workers.library.samples import SAMPLES

DATA = Path(os.environ.get("WEIR_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


def graph_of(name: str) -> nx.DiGraph:
    document = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
    graph = nx.DiGraph((stream["from"], stream["to"]) for stream in document["streams"])
    assert set(graph) == {task["id"] for task in document["tasks"]}
    return graph


def published(folder: str, file: str):
    path = DATA / folder / file
    if not path.exists():
        pytest.skip(f"the public data sets are not here: set WEIR_SHARED_DATA ({file})")
    return json.loads(path.read_text())


def riotbench(name: str) -> nx.DiGraph:
    topologies = published("riotbench", "riotbench_topologies.json")["topologies"]
    [topology] = [topology for topology in topologies if topology["name"] == name]
    return nx.DiGraph((edge["from"], edge["to"]) for edge in topology["edges"])


@pytest.mark.parametrize("sample,name,tasks", [
    ("traffic", "traffic_11_tasks", 11), ("smart_grid", "smartgrid_15_tasks", 15)])
def test_model_driven_schedulings_applications(sample, name, tasks):
    edges = published("performance_models", "dags.json")["structure_from_storm_rebalance_2017"][name]["edges"]
    graph = graph_of(sample)
    assert nx.is_isomorphic(graph, nx.DiGraph(map(tuple, edges)))
    assert len(graph) == tasks + 2, "a source and a sink besides"


def test_finance_has_as_many_tasks_as_are_published():
    graph = graph_of("finance")
    assert len(graph) == 7 + 2


# What our samples call the tasks of RIoTBench's; the sink behind its publisher counts for nothing and is left out.
SAME = {
    "ETLTopology": ("urban_etl", {
        "spout1": "stations", "SenMlParseBolt": "parse", "RangeFilterBolt": "in_range", "BloomFilterBolt": "known",
        "InterpolationBolt": "fill", "JoinBolt": "join", "AnnotationBolt": "annotate", "CsvToSenMLBolt": "to_senml",
        "PublishBolt": "publish"}, ()),
    "StatsWithVisualizationTopology": ("urban_stats_plots", {
        "spout": "stations", "ParseSenML": "parse", "BlockWindowAverageBolt": "average", "KalmanFilterBolt": "smooth",
        "SimpleLinearRegressionPredictorBolt": "forecast", "DistinctApproxCountBolt": "distinct",
        "Visualization": "series", "AzureBlobUploadTaskBolt": "upload"}, ("plot", "publish")),
    "IoTTrainTopologyTAXI": ("taxi_train", {
        "TimeSpout": "trips", "AzureTableRangeQueryBolt": "table", "LinearRegressionTrainBolt": "fares",
        "AnnotateDTClassBolt": "annotate", "DecisionTreeTrainBolt": "classes", "AzureBlobUploadTaskBolt": "upload",
        "MQTTPublishBolt": "announce"}, ("parse",)),
    "IoTPredictionTopologyTAXI": ("taxi_predictions", {
        "spout1": "trips", "SenMLParseBoltPREDTAXI": "parse", "AzureBlobDownloadTaskBolt": "download",
        "DecisionTreeClassifyBolt": "classify", "LinearRegressionPredictorBolt": "predict_fare",
        "BlockWindowAverageBolt": "average", "ErrorEstimationBolt": "error", "MQTTPublishBolt": "publish"},
        ("fare", "table", "fares", "annotate", "classes")),
}


@pytest.mark.parametrize("name", SAME)
def test_riotbenchs_dataflows(name):
    """Each of its streams leads where ours does, past what one of its tasks is two of here."""
    sample, names, more = SAME[name]
    theirs, graph = riotbench(name), graph_of(sample)
    assert set(theirs) - set(names) <= {"sink", "mqttSubscribeTaskBolt"} and set(graph) == {*names.values(), *more}
    ours = {(start, end) for start in names.values() for end in names.values() if start != end and any(
        not set(path[1:-1]) & set(names.values()) for path in nx.all_simple_paths(graph, start, end))}
    wanted = {(names[start], names[end]) for start, end in theirs.edges if start in names and end in names}
    if name == "IoTPredictionTopologyTAXI":  # its models come from the outside; here from what learns them
        ours = {(start, end) for start, end in ours if end != "download"}
    assert ours == wanted
