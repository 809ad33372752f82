"""Published dataflows, merged and taken apart again: the OPMW workflows of paper [1] and RIoTBench's topologies."""

from __future__ import annotations

import json
from random import Random

import pytest

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.documents import dump_document, read_document
from scheduler.model.duplicates import deduplicate
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import plan_removal, plan_submission
from tests.scheduler.sharing import sharing

from .catalogue import EMPTY, PRICES
from .invariants import check_estate, check_plan
from .reference import Reference
from .shared_data import shared_data

LOGIC = Parameter("logic", "string", "Which logic.", required=True)
TYPES = TaskTypes([TaskType(kind, kind, "", "none:none", (LOGIC,)) for kind in ("source", "transform", "sink")])


def dataflow_of(name: str, logic: dict[str, str], edges: list[tuple[str, str]]) -> Dataflow:
    """A dataflow from tasks with their logic; kinds follow from the edges. Unconnected tasks are left out."""
    edges = list(dict.fromkeys(edges))
    read, written = {target for _, target in edges}, {source for source, _ in edges}
    kinds = {step: "source" if step not in read else "transform" if step in written else "sink" for step in read
        | written}
    numbers = {step: f"t{number}" for number, step in enumerate(sorted(kinds))}
    dataflow = Dataflow(
        name=name[:100],
        tasks=tuple(Task(numbers[step], kinds[step], {"logic": logic[step]}) for step in sorted(kinds)),
        streams=tuple(Stream(numbers[source], numbers[target]) for source, target in edges),
    )
    return deduplicate(dataflow, task_types=TYPES)


def opmw() -> list[Dataflow]:
    templates = json.loads(shared_data("opmw/opmw_wings_templates.json").read_text(encoding="utf-8"))
    dataflows_found = []
    for template in templates:
        logic = {node["id"]: node["type"] for node in template["nodes"]}
        edges = []
        for link in template["links"]:
            source, target = link["from"], link["to"]
            if source is None:
                logic[source := f"input {link['var']}"] = f"input {link['var']}"
            if target is None:
                logic[target := f"output {link['var']}"] = f"output {link['var']}"
            edges.append((source, target))
        dataflows_found.append(dataflow_of(template["template"], logic, edges))
    return dataflows_found


def riotbench() -> list[Dataflow]:
    published = json.loads(shared_data("riotbench/riotbench_topologies.json").read_text(encoding="utf-8"))
    topologies = []
    for topology in published["topologies"]:
        logic = {component["id"]: component["task_class"] for component in topology["components"]}
        edges = [(edge["from"], edge["to"]) for edge in topology["edges"]]
        edges = [edge for edge in edges if set(edge) <= set(logic)]  # some name components that were never added
        if edges:
            topologies.append(dataflow_of(topology["name"], logic, edges))
    return topologies


@pytest.mark.parametrize(("workload", "every"), [
    (riotbench, 1), (opmw, 3),  # a third of OPMW's takes a tenth of the time, and has what is shared by several
    pytest.param(opmw, 1, marks=pytest.mark.long)])
def test_published_dataflows_merge_and_drain(workload, every):
    """Random order of coming and going, as the paper does it; the invariants are checked on the way."""
    pool, rng = workload()[::every], Random(2017)
    assert len(pool) >= 4
    estate, reference, most_saved = EMPTY, Reference(TYPES), 0.0
    coming, present = list(enumerate(pool)), []
    rng.shuffle(coming)
    while coming or present:
        if coming and (not present or rng.random() < 0.75):
            number, dataflow = coming.pop()
            read = read_document(dump_document(dataflow), task_types=TYPES)
            assert read == dataflow
            present.append(f"d{number}")
            reference.add(f"d{number}", dataflow, "water")
            plan = plan_submission(
                estate, read, dataflow_id=f"d{number}", team="water", task_types=TYPES, prices=PRICES
            )
        else:
            gone = present.pop(rng.randrange(len(present)))
            reference.remove(gone)
            plan = plan_removal(estate, gone, task_types=TYPES, prices=PRICES)
        check_plan(estate, plan)
        estate = apply_plan(estate, plan)
        most_saved = max(most_saved, sharing(estate).share_saved)
        if rng.random() < 0.2 or not coming:
            check_estate(estate, reference)
    assert (estate.tasks, estate.fragments) == ({}, {})
    assert most_saved > 0.1, "these workloads overlap"
