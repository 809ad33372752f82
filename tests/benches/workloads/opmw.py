"""Scientific workflows of the OPMW repository as dataflows: their structure, with the π task for their logic.

What a component computes is opaque here, so a π task stands for each, and says which one: two components are the same
task exactly when they are of one type (paper [1], 5.1). A workflow's input is a raw stream that its variable names, an
output of a workflow a sink of that name; its parameters are no streams and are left out. The templates themselves are
no part of Weir: a folder holds them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from zlib import crc32

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.duplicates import deduplicate
from scheduler.model.errors import NotFound
from scheduler.model.task_types import TaskTypes

FILE = "opmw_wings_templates.json"
COUNT = 35  # as many as paper [1] took; which ones it took is not published
SEEDS = 2**31


def dataflows(folder: Path, *, rng: Random, task_types: TaskTypes, count: int = COUNT) -> tuple[Dataflow, ...]:
    """Draw workflows, without replacement, from the templates in a folder.

    Parameters
    ----------
    folder : Path
        Holds ``opmw_wings_templates.json``: a list of templates with ``nodes`` (id, type), ``links`` (from, to, var),
        where a link from nothing is an input and one to nothing an output, and ``parameters`` by variable.
    rng : Random
        Draws which ones.
    task_types : TaskTypes
        Declarations of ``smart_meter``, ``pi_viete`` and ``output``.
    count : int
        How many to draw; all where there are fewer.

    Raises
    ------
    NotFound
        The folder has no such file.
    """
    file = folder / FILE
    if not file.is_file():
        raise NotFound(
            f"There are no OPMW templates in {folder}", remedy=f"Name the folder that holds {FILE}.", folder=str(folder)
        )
    templates = json.loads(file.read_text(encoding="utf-8"))
    drawn = rng.sample(templates, min(count, len(templates)))
    return tuple(dataflow_of(template, task_types=task_types) for template in drawn)


def dataflow_of(template: dict, *, task_types: TaskTypes) -> Dataflow:
    """A template as a de-duplicated dataflow; a component that nothing feeds or reads gets a stream of its own."""
    parameters = template.get("parameters", ())
    links = [(link["from"], link["to"], link["var"]) for link in template["links"] if link["var"] not in parameters]
    fed, read = {target for _, target, _ in links}, {source for source, _, _ in links}
    for node in template["nodes"]:
        links += [(None, node["id"], f"start of {node['type']}")] if node["id"] not in fed else []
        links += [(node["id"], None, f"end of {node['type']}")] if node["id"] not in read else []
    tasks = {
        node["id"]: Task(f"t{number}", "pi_viete", {"stands_for": node["type"]})
        for number, node in enumerate(template["nodes"])
    }
    sources: dict[str, Task] = {}
    sinks: dict[tuple[str, str], Task] = {}
    streams: dict[Stream, None] = {}
    for source, target, variable in links:
        if source is None:
            variable_source = sources.setdefault(
                variable, Task(f"in{len(sources)}", "smart_meter", {"seed": _seed(variable)})
            )
            streams[Stream(variable_source.id, tasks[target].id)] = None
        elif target is None:
            sink = Task(f"out{len(sinks)}", "output", {"name": _output(variable)})
            variable_source = sinks.setdefault((source, variable), sink)
            streams[Stream(tasks[source].id, variable_source.id)] = None
        else:
            streams[Stream(tasks[source].id, tasks[target].id)] = None
    dataflow = Dataflow(
        name=template["template"][:100], tasks=(*sources.values(), *tasks.values(), *sinks.values()),
        streams=tuple(streams),
    )
    return deduplicate(dataflow, task_types=task_types)


def _seed(variable: str) -> int:
    """The stream of chance that a variable names: the same for the same name in every workflow."""
    return crc32(variable.encode()) % SEEDS


def _output(variable: str) -> str:
    """The variable's name in the form that names of outputs have."""
    return re.sub(r"[^a-z0-9_]+", "-", variable.lower()).strip("-")[:63]
