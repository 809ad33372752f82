"""Storm Flux topologies: read where their components stand for task types, refused with a reason where not."""

from __future__ import annotations

import pytest
import yaml

from scheduler.model.documents import read_document
from scheduler.model.errors import InvalidDataflow

from .catalogue import TYPES, flow
from .shared_data import shared_data

TOPOLOGY = """\
name: Levels
config: {topology.workers: 2}
components:
  - {id: factory, className: org.example.Factory}
spouts:
  - id: in
    className: org.example.SensorsSpout
    parallelism: 3
    config: {weir.rate: 25}
bolts:
  - id: metres
    className: org.example.Whatever
    config: {weir.type: scale, topology.debug: true}
    properties:
      - {name: by, value: 0.01}
  - id: out
    className: org.example.ARCHIVE_Bolt
streams:
  - {name: first, from: in, to: metres, grouping: {type: FIELDS, args: [word]}}
  - {name: second, from: metres, to: out, grouping: {type: SHUFFLE}}
"""


def test_a_component_may_have_a_query_of_its_own():
    text = TOPOLOGY.replace("weir.type: scale,", "weir.type: scale, weir.chain: never,")
    assert read_document(text, task_types=TYPES).unchained == ("metres",)


def problems_of(text):
    with pytest.raises(InvalidDataflow) as raised:
        read_document(text, task_types=TYPES)
    return raised.value.problems


def test_a_topology_of_known_types_is_a_dataflow():
    assert read_document(TOPOLOGY, task_types=TYPES) == flow(
        "Levels", {"in": "sensors", "metres": ("scale", {"by": 0.01}), "out": "archive"}, "in > metres > out",
        rates={"in": 25},
    )


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("org.example.SensorsSpout", "org.example.TestWordSpout", "unknown_task_type", 7),
        ("weir.type: scale", "weir.type: scal", "unknown_task_type", 13),
        ("value: 0.01", "value: little", "ill_typed", 15),
        ("value: 0.01", "ref: factory", "flux_unsupported", 15),
        ("name: by", "name: bye", "unknown_parameter", 15),
        ("parallelism: 3", "constructorArgs: [1]", "flux_unsupported", 8),
        ("parallelism: 3", "configMethods: [{name: withWindow}]", "flux_unsupported", 8),
        ("type: SHUFFLE", "type: SHUFFLE, streamId: odd", "flux_unsupported", 20),
        ("name: Levels", "name: ${topology.name}", "flux_variable", 1),
        ("name: Levels", "name: Levels\nincludes: [{file: other.yaml}]", "flux_unsupported", 2),
        ("name: Levels", "topologySource: {className: org.example.Source}\nname: Levels", "flux_unsupported", 1),
        ("from: metres", "from: out", "self_loop", 20),
        ("from: in", "from: inn", "unknown_task", 19),
        ("id: out", "id: metres", "duplicate_id", 16),
        ("config: {weir.rate: 25}", "config: [25]", "ill_typed", 9),
        ("config: {weir.rate: 25}", "config: {weir.rate: 0}", "not_positive", 9),
        ("bolts:", "bolts: 7\nboltz:", "ill_typed", 10),
    ],
)
def test_what_a_dataflow_cannot_say_is_refused_at_its_place(old, new, code, line):
    assert old in TOPOLOGY
    problems = problems_of(TOPOLOGY.replace(old, new))
    assert (code, line) in {(problem.code, problem.line) for problem in problems}, problems


@pytest.mark.parametrize("text", [
    "name: Levels\nincludes: [{file: other.yaml}]\n", "name: Levels\nincludes: [{file: other.yaml}]\nstreams: []\n",
    "name: Levels\ntopologySource: {className: org.example.Source}\n",
])
def test_a_topology_whose_components_are_elsewhere_is_told_so_and_nothing_else(text):
    assert [(problem.code, problem.line) for problem in problems_of(text)] == [("flux_unsupported", 2)]


def test_includes_beside_tasks_are_a_key_that_a_dataflow_does_not_have():
    assert "unknown_key" in {problem.code for problem in problems_of("name: x\nincludes: []\ntasks: []\nstreams: []\n")}


def test_a_class_that_stands_for_nothing_gets_a_remedy_and_its_pointer():
    (problem,) = problems_of(TOPOLOGY.replace("org.example.SensorsSpout", "org.apache.storm.kafka.spout.KafkaSpout"))
    assert problem.path == "/spouts/0/className"
    assert "weir.type" in problem.remedy


def test_storms_own_examples_are_told_what_is_missing():
    files = sorted(shared_data("flux").glob("*.yaml"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        topology = yaml.safe_load(text)
        problems = problems_of(text)
        unknown = [problem.path for problem in problems if problem.code == "unknown_task_type"]
        assert len(unknown) == len(topology["spouts"]) + len(topology["bolts"]), file.name
        assert {problem.code for problem in problems} <= {"unknown_task_type", "flux_variable"}, file.name


def test_storms_own_examples_run_once_their_components_name_task_types():
    """Each component is given the type that its place in the topology asks for; then all but the variables are fine."""
    for file in sorted(shared_data("flux").glob("*.yaml")):
        topology = yaml.safe_load(file.read_text(encoding="utf-8"))
        read_from = {stream["from"] for stream in topology["streams"]}
        for number, component in enumerate([*topology["spouts"], *topology["bolts"]]):
            for unread in ("constructorArgs", "configMethods"):
                component.pop(unread, None)
            if component in topology["spouts"]:
                component["config"] = {"weir.type": "sensors"}
            elif component["id"] in read_from:
                component["config"] = {"weir.type": "scale"}
                component["properties"] = [{"name": "by", "value": number}]
            else:
                component["config"] = {"weir.type": "archive"}
        topology["name"] = "From Storm"
        topology.pop("config")
        dataflow = read_document(yaml.safe_dump(topology), task_types=TYPES)
        assert len(dataflow.tasks) == len(topology["spouts"]) + len(topology["bolts"])
        assert len(dataflow.streams) == len(topology["streams"])
