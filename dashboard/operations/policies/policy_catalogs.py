"""Names that the guards of a policy may use, for the team of a dataflow that proposes it.

| written | a stream of |
|---|---|
| `rate` | the dynamic task itself |
| `parse.rate` | another task of the dataflow |
| `keep.value` | columns of a task of it that is a named output |
| `dataflow.limits_missed` | the dataflow |
| `air.parse.rate`, `air.cpu`, `city.air.cpu` | the same of another dataflow, with its team where names are several |
| `events.alert.level` | events that the team posts |

What a task names that several dataflows share, all who share it may read. So columns of an output that a shared
dataflow reads with a credential are named by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q

from dashboard import jobs
from dashboard.catalog.document_checks import columns_in
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.readable import is_told_to_all
from dashboard.operations.policies.policy_reader import RunningElement
from dashboard.operations.policies.policy_streams import calendars_of, event_figures
from scheduler.guards.figure_streams import OF_DATAFLOW, OF_EVENTS, OF_OUTPUT, OF_TASK, figures_in, kind_of_column
from scheduler.guards.guard_reading import named_in, require_few_streams
from scheduler.guards.guard_values import GuardCatalog
from scheduler.guards.task_figures import TASK_CATALOG

OWN, EVENTS = "dataflow", "events"  # what the dataflow itself, and posted events, are called in guards
Streams = dict[str, Mapping[str, Any]]


def streams_for(element: RunningElement, texts: Iterable[str]) -> Streams:
    """The streams that guards and value functions of these texts may name: all of the dataflow and the events that its
    team posts, and those of other dataflows that the texts begin to name."""
    team = element.record.team
    streams: Streams = {
        f"{EVENTS}.{name}": {"of": OF_EVENTS, "team": team.slug, "name": name, "figures": figures}
        for name, figures in event_figures(team.slug).items()}
    for stream_name, stream in _of_dataflow(element, element.record):
        streams[stream_name or OWN] = stream
    names = {name for text in texts for name in named_in(text)}
    for prefix, record in _dataflows_named(element, names).items():
        for stream_name, stream in _of_dataflow(element, record):
            streams.setdefault(f"{prefix}.{stream_name}" if stream_name else prefix, stream)
    return streams


def catalog_with(element: RunningElement, streams: Streams) -> GuardCatalog:
    """The names that guards may use of these streams; without them too, the task's own figures and the team's
    calendars."""
    team = element.record.team
    return GuardCatalog(
        {**TASK_CATALOG.streams, **{name: figures_in(stream) for name, stream in streams.items()}},
        calendars_of(team.slug),
        f"{team.name} may name tasks of {element.record.name}, of its own dataflows and of shared ones "
        "(dataflow.task.figure), and events that it posts (events.stream.field). What another team keeps private, "
        "nobody else reads: ask that team to share it, or to post events.")


def _dataflows_named(element: RunningElement, names: Iterable[str]) -> dict[str, DataflowRecord]:
    """Dataflows that names begin with, by how they are written; where several have a name, the own team's, or none."""
    prefixes = {name[:index] for name in names for index, sign in enumerate(f"{name}.") if sign == "." and "." in name}
    if not prefixes:
        return {}
    readable = Q(visibility="shared")
    if element.running.scope:  # of the team alone
        readable |= Q(team=element.record.team)
    named: dict[str, list[DataflowRecord]] = {}
    for record in DataflowRecord.objects.select_related("team").filter(
            readable, pk__in=list(element.estate.submitted)).order_by("pk"):
        for written in (record.name, f"{record.team.slug}.{record.name}"):
            if written in prefixes:
                named.setdefault(written, []).append(record)
    require_few_streams(named, element.task)
    chosen = {}
    for written, records in named.items():
        team_records = [record for record in records if record.team_id == element.record.team_id]
        if team_records or len(records) == 1:
            chosen[written] = (team_records or records)[0]
    return chosen


def _of_dataflow(element: RunningElement, record: DataflowRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The streams of one dataflow in the estate, by task; its own under an empty name."""
    entry = element.estate.submitted[str(record.pk)]
    yield "", {"of": OF_DATAFLOW, "dataflow": str(record.pk)}
    types = jobs.task_types()
    outputs = [name for name, running in entry.running.items()
               if (declared := types.get(element.estate.tasks[running].type)) is not None
               and declared.terminal == "output"]
    columns = _columns(record) if outputs else {}
    for name, running in entry.running.items():
        if name not in outputs:
            yield name, {"of": OF_TASK, "dataflow": str(record.pk), "task": name}
        elif name in columns and is_told_to_all(element.estate, running):
            kinds = {column: kind for column, spark in columns[name].items()
                     if (kind := kind_of_column(spark)) is not None}
            yield name, {"of": OF_OUTPUT, "dataflow": str(record.pk), "task": name, "figures": kinds}


def _columns(record: DataflowRecord) -> dict[str, Mapping[str, str | None]]:
    version = record.versions.filter(number=record.version).first()
    if version is None:
        return {}
    return {task: columns.inputs.types for task, columns in columns_in(version.text, format=version.format).items()}
