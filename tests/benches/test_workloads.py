"""The workloads are valid documents, overlap as they say, and say clearly where templates are missing."""

from __future__ import annotations

import json
from random import Random

import pytest

from scheduler.model.documents import dump_document, read_document
from scheduler.model.errors import NotFound
from scheduler.reuse.merge import merge
from tests.benches.traces_on_spark import recorded, write_recordings
from tests.benches.workloads import opmw, riotbench
from tests.scheduler.shared_data import shared_data
from workers.library.registry import check, task_types

TEMPLATE = {
    "template": "Two of a kind",
    "nodes": [{"id": "Sorter", "type": "Sorter"}, {"id": "Sorter1", "type": "Sorter"}, {"id": "Plot", "type": "Plot"}],
    "links": [
        {"from": None, "to": "Sorter", "var": "words"},
        {"from": None, "to": "Sorter1", "var": "words"},
        {"from": None, "to": "Sorter1", "var": "threshold"},
        {"from": "Sorter", "to": "Plot", "var": "sorted"},
        {"from": "Sorter1", "to": "Plot", "var": "sorted1"},
        {"from": "Plot", "to": None, "var": "Picture (PNG)"},
    ],
    "parameters": {"threshold": None},
}


def valid(dataflow) -> bool:
    problems = [check(task_types()[task.type], task.config) for task in dataflow.tasks]
    return read_document(dump_document(dataflow), task_types=task_types()) == dataflow and problems == [None] * len(
        problems
    )


def test_the_iot_workload_is_21_valid_documents_over_three_sources():
    dataflows = riotbench.dataflows(rate_per_s=25)
    assert len({dataflow.name for dataflow in dataflows}) == len(dataflows) >= 21
    assert all(map(valid, dataflows))
    assert {dataflow.tasks[0].type for dataflow in dataflows} == {"urban_sensing", "smart_meter", "taxi_trips"}
    assert {tuple(dataflow.rates_per_s.values()) for dataflow in dataflows} == {(25,)}


def test_recordings_stand_in_for_the_sources(data_dir):
    write_recordings(data_dir / "replay", count=20)
    for dataflow in riotbench.dataflows():
        on_spark = recorded(dataflow)
        assert valid(on_spark) and on_spark.tasks[0].type == "replay" and on_spark.streams == dataflow.streams
    lines = (data_dir / "replay" / "taxi.senml").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 20 and '"taxi-0000"' in lines[8]


def test_no_iot_dataflow_is_wholly_part_of_another():
    """So that reuse of a whole dataflow by its copy does not flatter the figures."""
    fingerprints = [set(merge({}, dataflow, task_types=task_types()).running.values())
        for dataflow in riotbench.dataflows()]
    assert len(set(map(frozenset, fingerprints))) == len(fingerprints)


def test_equal_paths_are_equal_tasks_and_sources_keep_apart():
    of = {
        dataflow.name: merge({}, dataflow, task_types=task_types()).running for dataflow in riotbench.dataflows()
    }
    stats, moments = of["urban: stats"], of["urban: stats with moments"]
    assert {task_id for task_id in stats if task_id in moments and stats[task_id] == moments[task_id]} == {
        "source", "sml", "sml_kal", "sml_kal_slr", "out_sml_kal_slr",
    }
    assert not set(stats.values()) & set(of["taxi: stats"].values())


def test_a_workflow_becomes_a_dataflow_without_duplicates_or_parameters():
    dataflow = opmw.dataflow_of(TEMPLATE, task_types=task_types())
    assert valid(dataflow)
    assert [(task.type, task.config.get("stands_for")) for task in dataflow.tasks] == [
        ("smart_meter", None), ("pi_viete", "Sorter"), ("pi_viete", "Plot"), ("output", None),
    ]
    assert dataflow.tasks[-1].config["name"] == "picture-png"


def test_a_component_that_nothing_feeds_gets_a_source():
    lonely = {"template": "Lonely", "nodes": [{"id": "Clock", "type": "Clock"}], "links": []}
    dataflow = opmw.dataflow_of(lonely, task_types=task_types())
    assert valid(dataflow) and [task.type for task in dataflow.tasks] == ["smart_meter", "pi_viete", "output"]


def test_what_a_task_stands_for_keeps_it_apart():
    other = {**TEMPLATE, "nodes": [*TEMPLATE["nodes"][:2], {"id": "Plot", "type": "Draw"}]}
    one, two = (
        set(merge({}, opmw.dataflow_of(template, task_types=task_types()), task_types=task_types()).running.values())
        for template in (TEMPLATE, other)
    )
    assert len(one & two) == 2, "the input and the sorter"


def test_templates_are_drawn_by_seed(tmp_path):
    many = [{**TEMPLATE, "template": f"Workflow {number}"} for number in range(50)]
    (tmp_path / opmw.FILE).write_text(json.dumps(many), encoding="utf-8")
    drawn = [opmw.dataflows(tmp_path, rng=Random(seed), task_types=task_types()) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and len({dataflow.name for dataflow in drawn[0]}) == 35
    assert len(opmw.dataflows(tmp_path, rng=Random(1), task_types=task_types(), count=99)) == 50


def test_a_folder_without_templates_is_said_with_a_remedy(tmp_path):
    with pytest.raises(NotFound, match="no OPMW templates") as raised:
        opmw.dataflows(tmp_path, rng=Random(1), task_types=task_types())
    assert opmw.FILE in raised.value.remedy


def test_all_public_workflows_are_valid_documents():
    dataflows = opmw.dataflows(shared_data("opmw"), rng=Random(1), task_types=task_types(), count=1000)
    assert len(dataflows) >= 70 and all(valid(dataflow) for dataflow in dataflows)
