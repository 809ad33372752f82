"""Reading dataflows, as far as the viewer may know of them.

For pages and API:

- ``dataflows(viewer, …)``: a query set for lists, with ``team``, ``author`` fetched
- ``dataflow(viewer, dataflow_id)``: one record, or ``NotFound``
- ``current_version(record)``, ``versions(record)``, ``version(record, number)``: documents
- ``graph_of(record)``: tasks and streams of the current version, or of another one, for drawing
- ``samples()``, ``sample_dataflows()``: documents to start from, and what they describe
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from django.db.models import Case, Q, QuerySet, When

from dashboard import jobs
from dashboard.catalog import permissions
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.core.one_reading import once
from dashboard.teams.permissions import Viewer
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import read_document, type_and_config
from scheduler.model.errors import NotFound


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """A document to start from."""

    slug: str
    name: str
    description: str
    text: str
    tasks: int


def dataflows(
    viewer: Viewer, *, search: str = "", team: str = "", status: str = "", by_name: bool = False
) -> QuerySet[DataflowRecord]:
    """Dataflows that the viewer may know of, newest first.

    Parameters
    ----------
    search : str
        Up to 8 words, each of which is in the name, the description or the team's name.
    team : str
        A team's short name; any team without it.
    status : str
        A state of `lifecycle`; any state without it.
    by_name : bool
        Names that begin with the search come first, then names that contain it.
    """
    records = DataflowRecord.objects.filter(permissions.visible_to(viewer)).select_related("team", "author")
    for word in search.replace("\0", "").split()[:8]:
        records = records.filter(
            Q(name__icontains=word) | Q(description__icontains=word) | Q(team__name__icontains=word))
    if team:
        records = records.filter(team__slug=team)
    if status:
        records = records.filter(status=status)
    if by_name:
        rank = Case(When(name__istartswith=search, then=0), When(name__icontains=search, then=1), default=2)
        records = records.order_by(rank, "-created", "id")
    return records


def dataflow(viewer: Viewer, dataflow_id: UUID | str) -> DataflowRecord:
    """One dataflow; ``NotFound`` where it is absent or hidden from the viewer."""
    return permissions.dataflow_for(viewer, dataflow_id)


VERSIONS_SHOWN = 25  # of a dataflow, where they stand beside something else


def versions(record: DataflowRecord) -> QuerySet[DataflowVersion]:
    """Its documents, newest first."""
    return record.versions.select_related("author")


def current_version(record: DataflowRecord) -> DataflowVersion:
    """The document that counts now."""
    return once(("version", record.pk, record.version), lambda: record.versions.get(number=record.version))


def version(record: DataflowRecord, number: int) -> DataflowVersion:
    """One of its documents; ``NotFound`` where it has none of that number."""
    chosen = versions(record).filter(number=number).first()
    if chosen is None:
        raise NotFound(f"This dataflow has no version {number}.", remedy="Choose one of its versions.")
    return chosen


def graph_of(record: DataflowRecord, *, number: int | None = None) -> dict[str, list[dict]]:
    """Tasks and streams as submitted, of the version that counts, or of another one by its number.

    ``{"tasks": [{"id", "type", "kind", "family", "config", "chain"}], "streams": [{"source", "target",
    "selectivity"}]}``; ``kind`` and ``family`` are empty where the task type is no longer installed.
    """
    version = record.versions.get(number=number) if number else current_version(record)
    document, types = version.document, jobs.task_types()
    tasks = []
    for task in document["tasks"]:
        task_type, config = type_and_config(task)
        declared = types.get(task_type)
        tasks.append({
            "id": task["id"], "type": task_type, "config": config,
            "chain": task.get("chain", "allowed"),
            "kind": declared.kind if declared else "", "family": declared.family if declared else "",
        })
    streams = [
        {"source": stream["from"], "target": stream["to"], "selectivity": stream.get("selectivity")}
        for stream in document.get("streams", ())
    ]
    return {"tasks": tasks, "streams": streams}


def samples() -> tuple[SampleDocument, ...]:
    """The samples that come with the task library, by name."""
    return tuple(SampleDocument(**sample) for sample in jobs.samples())


@lru_cache(maxsize=1)
def sample_dataflows() -> tuple[tuple[SampleDocument, Dataflow], ...]:
    """The samples, each with its dataflow, whether or not the operator allows the servers that it names. Samples and
    task types are read once a process, and so are these."""
    return tuple(
        (sample, read_document(sample.text, format="yaml", task_types=jobs.task_types())) for sample in samples())
