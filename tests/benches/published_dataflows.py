"""The dataflows and profiles of paper [2], read from the public data; the labels that it does not give are ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.prices import VmSize
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.profile_csv import read_profiles
from scheduler.model.resources import Catalogue
from scheduler.model.task_types import TaskType, TaskTypes

SOURCE, SINK = "src", "sink"
# Where only the structure is known: the five tasks in the order of Linear, again and again, by task number.
LABELS = ("blob", "table", "floatpi", "xmlparse", "batchedWrite")
STRUCTURES = {"star": "star", "traffic": "traffic_11_tasks", "grid": "smartgrid_15_tasks"}
TYPES = TaskTypes([
    TaskType(SOURCE, "source", "Makes events.", "none:none"), TaskType(SINK, "sink", "Takes events.", "none:none"),
    *(TaskType(name, "transform", "A task of paper [2].", "none:none") for name in LABELS),
])
# Azure D1 to D3: the machines of its experiments.
MACHINES = Catalogue((VmSize("D1", 1, 0.098), VmSize("D2", 2, 0.196), VmSize("D3", 4, 0.392)))


def published_profiles(folder: Path) -> Profiles:
    """What was measured of the five tasks; sources and sinks have the fixed shares of 8.3."""
    measured = read_profiles((folder / "performance_model.csv").read_text(encoding="utf-8"))
    return Profiles([
        *measured,
        Profile(SOURCE, (Point(1, 1.0, 0.10, 0.15),), static=True),
        Profile(SINK, (Point(1, 1.0, 0.10, 0.20),), static=True),
    ])


def published_dataflows(folder: Path) -> dict[str, Dataflow]:
    """Linear and Diamond as published; Star, Traffic and Smart Grid by structure, with labels of ours."""
    published = json.loads((folder / "dags.json").read_text(encoding="utf-8"))
    dataflows = {name: _dataflow(name, edges) for name, edges in published["micro_from_FullTopoSC_2016"].items()}
    for name, key in STRUCTURES.items():
        dataflows[name] = _dataflow(name, published["structure_from_storm_rebalance_2017"][key]["edges"])
    return dataflows


def _dataflow(name: str, edges: Iterable[tuple[str, str]]) -> Dataflow:
    edges = [tuple(edge) for edge in edges]
    ids = dict.fromkeys(task_id for edge in edges for task_id in edge)
    numbered = sorted(int(task_id) for task_id in ids if task_id.isdecimal())
    labels = {str(number): LABELS[at % len(LABELS)] for at, number in enumerate(numbered)}
    return Dataflow(
        name, tuple(Task(task_id, labels.get(task_id, task_id)) for task_id in ids),
        tuple(Stream(*edge) for edge in edges))
