"""OpenLineage run events, version 2-0-2 of the specification, from values.

A dataflow is a job, a deployment of it is a run: it starts when the plan of a submission is enacted, and completes when
the dataflow is removed. In between an event of the type ``RUNNING`` says what has changed. The tasks that run for it,
and which dataflows own each of them, are in a facet of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
JOB_TYPE_FACET = "https://openlineage.io/spec/facets/2-0-3/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"
START, RUNNING, COMPLETE = "START", "RUNNING", "COMPLETE"
FACET = "weir_tasks"


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """A running task, by what the dataflow calls it, and the dataflows that own it: names as ``team.dataflow``."""

    task: str
    running_task: str
    type: str
    owners: Sequence[str]


@dataclass(frozen=True, slots=True)
class LineageRun:
    """The run that one event is about: a dataflow, its run, and what it reads and writes (dataset names)."""

    run_id: str
    job: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    tasks: Sequence[OwnedTask]


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of the events: its URI, the namespace of its jobs, and where the schema of our facet is."""

    uri: str
    namespace: str
    facet_schema: str


def run_event(deployment: LineageRun, event_type: str, at: datetime, producer: Producer) -> Mapping[str, Any]:
    """One event, as JSON.

    Parameters
    ----------
    event_type : str
        ``START``, ``RUNNING`` or ``COMPLETE``.
    """
    facet = {
        "_producer": producer.uri, "_schemaURL": producer.facet_schema,
        "tasks": [
            {"task": task.task, "runningTask": task.running_task, "type": task.type, "owners": list(task.owners),
             "merged": len(task.owners) > 1} for task in deployment.tasks]}
    kind = {
        "_producer": producer.uri, "_schemaURL": JOB_TYPE_FACET, "processingType": "STREAMING", "integration": "WEIR",
        "jobType": "DATAFLOW"}
    return {
        "eventTime": at.isoformat(), "eventType": event_type, "producer": producer.uri, "schemaURL": SCHEMA_URL,
        "run": {"runId": deployment.run_id, "facets": {FACET: facet}},
        "job": {"namespace": producer.namespace, "name": deployment.job, "facets": {"jobType": kind}},
        "inputs": [{"namespace": producer.namespace, "name": name} for name in deployment.inputs],
        "outputs": [{"namespace": producer.namespace, "name": name} for name in deployment.outputs]}
