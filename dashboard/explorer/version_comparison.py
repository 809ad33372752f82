"""Two versions of a dataflow beside each other: what both have, and what only one of them does."""

from __future__ import annotations

from typing import Any

from dashboard import jobs
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowVersion
from scheduler.model.dataflow import Dataflow
from scheduler.reuse.fingerprint import fingerprints


def compared(former: DataflowVersion, version: DataflowVersion) -> dict[str, Any]:
    """The tasks of two versions in one graph; a task is in both where it, and all upstream of it, are equivalent.

    Returns
    -------
    dict
        ``tasks``, upstream first: ``id``, ``type``, ``config``, ``parents``, ``one`` and ``other`` (the name in the
        former and in this version, or ""), ``page`` (none); ``same``, ``only_former``, ``only_this``: how many;
        ``installed``: whether all task types are there still: otherwise nothing can be compared, and ``tasks`` is
        empty.
    """
    dataflows = [stored_dataflow(version_row.document, installed=False) for version_row in (former, version)]
    if any(task.type not in jobs.task_types() for dataflow in dataflows for task in dataflow.tasks):
        return {"tasks": [], "same": 0, "only_former": 0, "only_this": 0, "installed": False}
    rows: dict[str, dict[str, Any]] = {}
    for side, dataflow in zip(("one", "other"), dataflows, strict=True):
        for identity, row in _rows(dataflow).items():
            rows.setdefault(identity, {"one": "", "other": "", **row})[side] = row["name"]
    sides = [(bool(row["one"]), bool(row["other"])) for row in rows.values()]
    return {
        "tasks": list(rows.values()), "same": sides.count((True, True)), "only_former": sides.count((True, False)),
        "only_this": sides.count((False, True)), "installed": True}


def _rows(dataflow: Dataflow) -> dict[str, dict[str, Any]]:
    """A dataflow's tasks by what tells them from others, upstream first."""
    identities = fingerprints(dataflow, task_types=jobs.task_types(), scope=dataflow.visibility)
    parents, tasks = dataflow.parents(), {task.id: task for task in dataflow.tasks}
    return {
        identity: {
            "id": identity, "name": task_id, "type": tasks[task_id].type, "config": dict(tasks[task_id].config),
            "parents": [identities[parent] for parent in parents[task_id]], "page": ""}
        for task_id, identity in identities.items()}
