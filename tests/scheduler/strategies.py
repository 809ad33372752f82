"""Random dataflows that overlap, and random orders in which they come and go."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.documents import read_document
from scheduler.model.duplicates import deduplicate

from .catalogue import TYPES

# Few distinct tasks, so that dataflows have much in common; 1 and 1.0 are one factor.
SOURCES = [("sensors", {}), ("sensors", {"city": "turin"}), ("sensors", {"seed": 0})]
PATHS = [  # the first two are one
    {"tasks": [{"id": "x", "type": "scale", "config": {"by": 2}}, {"id": "y", "type": "thin"}],
     "streams": [{"from": "input", "to": "x"}, {"from": "x", "to": "y"}, {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "b", "type": "scale", "config": {"by": 2.0}}],
     "streams": [{"from": "x", "to": "output"}, {"from": "b", "to": "x"}, {"from": "input", "to": "b"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "y", "type": "scale", "config": {"by": 2}}],
     "streams": [{"from": "input", "to": "x"}, {"from": "x", "to": "y"}, {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "y", "type": "scale", "config": {"by": 2}}],
     "streams": [{"from": "input", "to": "x"}, {"from": "input", "to": "y"}, {"from": "x", "to": "output"},
                 {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "only", "type": "thin"}],
     "streams": [{"from": "input", "to": "only"}, {"from": "only", "to": "output"}]},
]
TRANSFORMS = [
    ("scale", {"by": 1}), ("scale", {"by": 1.0}), ("scale", {"by": 2}), ("thin", {}), ("alone", {}), ("count", {}),
    *(("dynamic", {"alternates": [
        {"name": "a", "type": "scale", "config": {"by": by}, "value": value, "guard": guard},
        {"name": "b", "type": "thin"}]})
      for by, value, guard in ((1, 1, ""), (1.0, 1.0, " "), (1, 1, "x > 1"), (1, 2, ""))),
    *(("dynamic", {"alternates": [
        {"name": "a", "type": "scale", "config": {"by": 1}}, {"name": "b", **path}]}) for path in PATHS),
]
SINKS = [("archive", {}), ("archive", {"name": "other"}), ("alarm", {})]
AT_PORTS = [(kind, {"port": port}) for kind in ("into_port", "from_port") for port in ("left", "high", "low")]


@st.composite
def with_ports(draw: st.DrawFn) -> dict[str, Any]:
    """A valid document with a dynamic task, between which and its sources and sinks streams have ports."""
    inputs = draw(st.sampled_from([[], ["left"], ["left", "right"]]))
    outputs = draw(st.sampled_from([["high"], ["high", "low"]] if inputs else [["high", "low"]]))
    sources = [f"s{number}" for number in range(draw(st.integers(1, 2)))]
    kinds = draw(st.sampled_from([SOURCES[:2], SOURCES[1:], SOURCES[1::-1]]))  # the first and the last are one
    tasks = [{"id": name, "type": kind, "config": config} for name, (kind, config) in zip(sources, kinds, strict=False)]
    before = [*sources]
    streams = []
    if draw(st.booleans()):
        tasks.append({"id": "t", "type": "count"})
        streams.append({"from": sources[-1], "to": "t"})
        before[-1] = "t"
    streams += _by_ports(draw, before, "work", "to", inputs)
    tasks.append({"id": "work", "alternates": [
        {"name": name, "value": value, **_path(draw, inputs, outputs, all_inputs=name == "a")}
        for name, value in (("a", draw(st.sampled_from([1, 1.0, 2]))), ("b", 1))]})
    sinks = ["o0", "o1"][:draw(st.integers(1, 2))]
    tasks += [{"id": name, "type": kind, "config": config} for name, (kind, config) in zip(sinks, SINKS, strict=False)]
    streams += _by_ports(draw, sinks, "work", "from", outputs)
    return {"name": "random", "tasks": tasks, "streams": draw(st.permutations(streams)),
            "visibility": draw(st.sampled_from(["shared"] * 4 + ["private"]))}


def _by_ports(draw: st.DrawFn, ends: list[str], task: str, side: str, ports: list[str]) -> list[dict[str, Any]]:
    """Streams between a task and all of what is around it, by all of its ports."""
    key, other = ("input", "from") if side == "to" else ("output", "to")
    if not ports:
        return [{other: end, side: task} for end in ends]
    by = [(end, draw(st.sampled_from(ports))) for end in ends]
    by += [(draw(st.sampled_from(ends)), port) for port in ports if port not in {port for _, port in by}]
    return [{other: end, side: task, key: port} for end, port in by]


def _path(draw: st.DrawFn, inputs: list[str], outputs: list[str], *, all_inputs: bool) -> dict[str, Any]:
    """A path in which every task is fed and read, no two do the same, and something leaves by each output."""
    within = draw(st.lists(st.sampled_from(["scale", "thin", "double"]), min_size=1, max_size=3, unique=True))
    tasks = [{"id": f"p{number}", "type": "scale" if name == "double" else name, "config": {
        "scale": {"by": draw(st.sampled_from([1, 1.0]))}, "double": {"by": 2}}.get(name, {})}
        for number, name in enumerate(within)]
    entering = [{"from": "input", "input": port} for port in inputs] or [{"from": "input"}]
    leaving = [{"to": "output", "output": port} for port in outputs] or [{"to": "output"}]
    readable, unread, streams = [*entering], [*entering] if all_inputs else [], []
    for task in tasks:
        read = draw(st.lists(st.sampled_from(readable), min_size=1, max_size=2, unique_by=repr))
        streams += [{**one, "to": task["id"]} for one in read]
        unread = [one for one in unread if one not in read] + [{"from": task["id"]}]
        readable.append({"from": task["id"]})
    for number, end in enumerate(leaving):
        read = draw(st.lists(st.sampled_from(readable), max_size=2, unique_by=repr)) or readable[-1:]
        read += [one for one in unread if one not in read] if number == 0 else []
        streams += [{**one, **end} for one in read]
    return {"tasks": tasks, "streams": streams}


@st.composite
def dataflows(draw: st.DrawFn, *, largest: int = 8) -> Dataflow:
    """A valid, de-duplicated dataflow: a random graph in which every task is fed and read, or one with ports."""
    if draw(st.integers(0, 3)) == 3:
        return read_document(json.dumps(draw(with_ports())), task_types=TYPES)
    sources = [(f"s{number}", *draw(st.sampled_from(SOURCES))) for number in range(draw(st.integers(1, 2)))]
    tasks, streams, unread = list(sources), [], [task_id for task_id, *_ in sources]
    for number in range(draw(st.integers(0, largest - 3))):
        task_id = f"t{number}"
        task_ids = [known_id for known_id, *_ in tasks]
        parents = draw(st.lists(st.sampled_from(task_ids), min_size=1, max_size=3, unique=True))
        tasks.append((task_id, *draw(st.sampled_from(TRANSFORMS))))
        streams.extend((parent, task_id) for parent in parents)
        unread = [other for other in unread if other not in parents] + [task_id]
    for number in range(draw(st.integers(1, 2))):
        parents = unread if number == 0 else draw(
            st.lists(st.sampled_from([task_id for task_id, *_ in tasks if task_id[0] != "o"]), min_size=1, unique=True)
        )
        tasks.append((f"o{number}", *draw(st.sampled_from(SINKS))))
        streams.extend((parent, f"o{number}") for parent in parents)
    dataflow = Dataflow(
        name="random",
        tasks=tuple(Task(*task, chain=draw(st.sampled_from(["allowed"] * 5 + ["never"]))) for task in tasks),
        streams=tuple(Stream(*stream) for stream in streams),
        rates_per_s=draw(st.dictionaries(st.sampled_from([one for one, *_ in sources]), st.sampled_from([10, 50.0]))),
        visibility=draw(st.sampled_from(["shared"] * 4 + ["private"])),
    )
    return deduplicate(dataflow, task_types=TYPES)


@st.composite
def changed(draw: st.DrawFn, dataflow: Dataflow) -> Dataflow:
    """The dataflow with one of its tasks another, or with its tasks under other ids."""
    tasks = list(dataflow.tasks)
    chosen = draw(st.integers(0, len(tasks) - 1))
    kinds = (SOURCES, TRANSFORMS, SINKS, AT_PORTS)
    others = next(kind for kind in kinds if tasks[chosen].type in {name for name, _ in kind})
    tasks[chosen] = Task(tasks[chosen].id, *draw(st.sampled_from(others)))
    ids = {task.id: task.id + draw(st.sampled_from(["", "", "-new"])) for task in tasks}
    return deduplicate(Dataflow(
        name=dataflow.name, tasks=tuple(Task(ids[task.id], task.type, task.config) for task in tasks),
        streams=tuple(Stream(ids[stream.source], ids[stream.target]) for stream in dataflow.streams),
        rates_per_s={ids[task_id]: rate for task_id, rate in dataflow.rates_per_s.items()},
        visibility=dataflow.visibility), task_types=TYPES)


@st.composite
def histories(draw: st.DrawFn, *, longest: int = 8) -> list[tuple[str, Dataflow | None, str]]:
    """A history of submissions (id, dataflow, team) and removals (id, None, "")."""
    pool = draw(st.lists(dataflows(), min_size=1, max_size=4))
    history: list[tuple[str, Dataflow | None, str]] = []
    present: list[str] = []
    for number in range(draw(st.integers(1, longest))):
        if present and draw(st.integers(0, 2)) == 0:
            gone = draw(st.sampled_from(present))
            present.remove(gone)
            history.append((gone, None, ""))
        else:
            dataflow_id = f"d{number}"
            present.append(dataflow_id)
            history.append((dataflow_id, draw(st.sampled_from(pool)), draw(st.sampled_from(["water", "roads"]))))
    return history
