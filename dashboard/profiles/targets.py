"""Targets of measurements: a task type with a config, and the chain of tasks whose events it gets.

Either a task of a dataflow, fed by what is upstream of it there; or a type with a config of one's own, fed as a task of
that type is in a sample of the library, or by a source alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from dashboard import jobs
from dashboard.catalog.document_checks import parse_document, stored_dataflow
from dashboard.catalog.permissions import dataflow_for
from dashboard.catalog.selectors import current_version, sample_dataflows
from dashboard.core.http_errors import BadInput
from dashboard.profiles.models import ProfileRecord
from dashboard.teams.permissions import Viewer
from scheduler.model.canonical import canonical_json, identity_config, plain
from scheduler.model.dataflow import Dataflow, Task
from scheduler.model.errors import NotFound, UnknownTaskType
from scheduler.model.secrets import with_scoped_secrets
from scheduler.model.task_types import TaskType
from scheduler.performance.feeding_chain import feed_of

Chain = tuple[Mapping[str, Any], ...]
MEASURED = "measured"  # the task's id in the document that checks its config


@dataclass(frozen=True, slots=True)
class FeedOption:
    """A way to feed a task type: its key in a form, in words, and the tasks, a source first."""

    key: str
    title: str
    chain: Chain


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """The target of a sweep. With a team it is of a private dataflow.

    ``tasks``: for a task of a dataflow the ids there: those of its feed, and its own last.
    """

    task_type: str
    config: Mapping[str, Any]
    version: int
    stateful: bool
    feed: Chain
    fed_by: str
    team_id: int | None = None
    dataflow_id: UUID | None = None
    tasks: tuple[str, ...] = ()


def target_of_task(viewer: Viewer, dataflow_id: UUID | str, task_id: str) -> SweepTarget:
    """A task of a dataflow that the viewer may know of, as it is submitted now; see `targets_of_tasks`."""
    [target] = targets_of_tasks(viewer, dataflow_id, [task_id]).values()
    return target


def targets_of_tasks(viewer: Viewer, dataflow_id: UUID | str, task_ids: Iterable[str]) -> dict[str, SweepTarget]:
    """Tasks of a dataflow that the viewer may know of, as they are submitted now, by their ids."""
    record = dataflow_for(viewer, dataflow_id)
    dataflow = stored_dataflow(current_version(record).document)
    known_ids = {task.id for task in dataflow.tasks}
    dataflow = with_scoped_secrets(dataflow, team=record.team.slug, task_types=jobs.task_types())
    targets = {}
    for task_id in task_ids:
        if task_id not in known_ids:
            raise NotFound(f"{record.name} has no task {task_id}.", remedy="Choose one of its tasks.", task=task_id)
        feed = feed_of(dataflow, task_id, task_types=jobs.task_types())
        task = dataflow.task(task_id)
        declared = installed(task.type)
        through = " → ".join(fed.id for fed in feed) or "itself, a source"
        targets[task_id] = SweepTarget(
            task.type, plain(identity_config(dataflow, task, declared)), declared.version, declared.stateful,
            _chain(feed), f"{through}, as in {record.name}"[:200], record.team_id if record.private else None,
            record.pk, (*(fed.id for fed in feed), task_id))
    return targets


def target_of_type(name: str, config: Mapping[str, Any], *, feed_key: str) -> SweepTarget:
    """A type with a config, fed in one of the ways that `feeds_for` offers (the first where none is named).

    Raises
    ------
    NotFound
        There is no such way to feed it.
    UnknownTaskType
        The type is not installed.
    InvalidDataflow
        The config does not fit the type; every problem is listed.
    """
    declared = installed(name)
    feeds = feeds_for(declared)
    feed = next((way for way in feeds if way.key == (feed_key or feeds[0].key)), None)
    if feed is None:
        raise NotFound(f"Nothing feeds {name} in that way.", remedy="Choose one of the ways offered.", feed=feed_key)
    dataflow = _document(declared, config)
    task = dataflow.task(MEASURED)
    return SweepTarget(
        name, plain(identity_config(dataflow, task, declared)), declared.version, declared.stateful, feed.chain,
        feed.title)


def target_again(record: ProfileRecord) -> SweepTarget:
    """The target of a measured profile, with the version that its type has now.

    Raises
    ------
    NotFound
        It was imported: how it was measured is not known.
    UnknownTaskType
        Its type is no longer installed.
    """
    sweep = getattr(record, "sweep", None)
    if sweep is None:
        raise NotFound(
            f"The profile of {record.task_type} was imported, and how it was measured is not known.",
            remedy="Under Profiles, Measure, choose its type and what it is to be fed by.")
    declared = installed(record.task_type)
    return SweepTarget(
        sweep.task_type, json.loads(sweep.config), declared.version, declared.stateful, tuple(sweep.feed), sweep.fed_by,
        sweep.team_id, sweep.dataflow_id, tuple(sweep.tasks))


def feeds_for(declared: TaskType) -> tuple[FeedOption, ...]:
    """The feeds of a type: as its tasks are in the library's samples, then by each source alone."""
    if declared.kind == "source":
        return (FeedOption("itself", "itself, a source", ()),)
    feeds: dict[str, FeedOption] = {}
    for sample, dataflow in sample_dataflows():
        if any(jobs.task_types()[task.type].connector is not None for task in dataflow.tasks):
            continue  # what a live source gives is no measure
        for task in dataflow.tasks:
            if task.type == declared.name:
                chain = _chain(feed_of(dataflow, task.id, task_types=jobs.task_types()))
                through = " → ".join(chained["type"] for chained in chain)
                title = f"{through}, as in the sample {sample.name}"
                feeds.setdefault(canonical_json(chain), FeedOption(f"{sample.slug}:{task.id}", title[:200], chain))
    alone = [FeedOption(f"source:{name}", f"the source {name} alone", _alone(name)) for name in _sources()]
    return (*feeds.values(), *alone)


def installed(name: str) -> TaskType:
    """A task type by its name; ``UnknownTaskType`` where no package brings it."""
    declared = jobs.task_types().get(name)
    if declared is None:
        raise UnknownTaskType(
            f"There is no task type {name!r}.", remedy="See the list of task types, or install its package.",
            task_type=name)
    return declared


def _chain(feed: tuple[Task, ...]) -> Chain:
    return tuple({"type": task.type, "config": plain(task.config)} for task in feed)


def _alone(source: str) -> Chain:
    """A source with its defaults, as a task of a dataflow has them."""
    task = Task("source", source)
    dataflow = Dataflow(source, (task,), ())
    return _chain((replace(task, config=identity_config(dataflow, task, installed(source))),))


def _sources() -> list[str]:
    """The sources that need no parameter."""
    return [task_type.name for task_type in jobs.task_types().values()
            if task_type.kind == "source" and not any(parameter.required for parameter in task_type.parameters)]


def _document(declared: TaskType, config: Mapping[str, Any]) -> Dataflow:
    """The shortest dataflow with the task, read like any document, so that faults of the config are reported as
    usual."""
    tasks: list[dict[str, Any]] = [{"id": MEASURED, "type": declared.name, "config": dict(config)}]
    if declared.kind != "source":
        tasks.insert(0, {"id": "source", "type": _sources()[0]})
    if declared.kind != "sink":
        tasks.append({"id": "end", "type": "output", "config": {"name": "end"}})
    streams = [{"from": upstream["id"], "to": downstream["id"]} for upstream, downstream in pairwise(tasks)]
    try:
        text = json.dumps({"name": declared.name, "tasks": tasks, "streams": streams})
    except RecursionError as error:
        raise BadInput("The config is nested too deeply.", remedy="Give fewer levels.") from error
    return parse_document(text, format="json", columns=False)
