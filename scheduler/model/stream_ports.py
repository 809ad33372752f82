"""Ports: streams that enter or leave a dynamic task by name, so that its paths tell them apart (thesis [3], 3.2).

A stream out of a dynamic task names its ``output``, a stream into it its ``input``. Within a path the streams to
`OUTPUT` and from `INPUT` name the same ports. Ports become ordinary tasks when a document is read: an `INTO_PORT` where
a stream enters a port, and a `FROM_PORT` where it leaves one. Between the two there is a single stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .draft_values import Draft, DraftStream, DraftTask, free_id
from .paths import FROM_PORT, INPUT, INTO_PORT, OUTPUT, PORT
from .positions import DocumentNode, Problems, listed, shown

PORT_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
PORT_KEYS = {INPUT: "target", OUTPUT: "source"}  # of a stream, and which of its ends is the dynamic task

MakeTask = Callable[[str, str, DocumentNode], DraftTask | None]


def check_ports(draft: Draft, problems: Problems) -> None:
    """Note which ports the streams of a path name; report those of what has none, and where a dynamic task, its paths
    and the streams around it name different ones."""
    for stream in draft.streams:
        for side, node in list(stream.ports.items()):
            task = draft.tasks.get(_at(stream, side, draft))
            if task is None or (task.alternates if task.id != side else draft.is_path):
                continue
            problems.add(
                "unknown_port", node.position, f"Only a task with alternates has an {side} with a name.",
                f"Leave {side} out.", task_id=None if task.is_end else task.id)
            del stream.ports[side]
    for side in PORT_KEYS:
        if draft.is_path:
            draft.ports[side] = [stream for stream in draft.streams if _at(stream, side, draft) == side]
            continue
        for task in draft.tasks.values():
            if task.alternates:
                outside = [stream for stream in draft.streams if _at(stream, side, draft) == task.id]
                _check_side(task, side, outside, problems)


def _check_side(task: DraftTask, side: str, outside: list[DraftStream], problems: Problems) -> None:
    inside = [(way, way.path.ports.get(side, []) if way.path else []) for way in task.alternates.values()]
    if not any(side in stream.ports for streams in (outside, *(inner for _, inner in inside)) for stream in streams):
        return
    names = {stream.ports[side].value: stream for stream in outside if side in stream.ports}
    verb = "enters" if side == INPUT else "leaves"
    for streams, within in (
            (outside, problems), *((inner, problems.within(way.where, task.id)) for way, inner in inside)):
        for stream in streams:
            if side not in stream.ports:
                within.add(
                    "missing_port", stream.position, f"Other streams say by which {side} of {task.id} an event {verb}.",
                    f"Say which {side} this one has.", task_id=task.id)
    by_path = {
        way.alternate: {stream.ports[side].value: stream.ports[side] for stream in streams if side in stream.ports}
        for way, streams in inside if way.path is not None}
    names_inside = {name for inner_ports in by_path.values() for name in inner_ports}
    unknown = [name for name in names if name not in names_inside] if len(by_path) == len(inside) else []
    for name in unknown:
        near = problems.nearest(name, names_inside)
        problems.add(
            "unknown_port", names[name].ports[side].position, f"No path of {task.id} has an {side} {shown(name)}.",
            f"Did you mean {near}?" if near else f"Let a stream of a path name this {side}.", task_id=task.id)
    for way, _ in inside if not unknown else ():
        within = problems.within(way.where, task.id)
        if way.path is None:
            within.add(
                "missing_port", way.position, f"It has no {side} with a name, which streams around {task.id} have.",
                f"Let it be a path: give it tasks, and streams with {side}.", task_id=task.id)
            continue
        ports = by_path[way.alternate]
        missing = [name for name in names if name not in ports] if side == OUTPUT else []
        if missing:
            within.add(
                "missing_port", way.position, f"Nothing leaves by the output {listed(missing, ', ')}.",
                "All alternates have the same outputs: let a stream of this path go to each.", task_id=task.id)
        for name, node in ports.items():
            if name not in names:
                near = problems.nearest(name, names)
                within.add(
                    "unknown_port", node.position, f"No stream {verb} {task.id} by the {side} {shown(name)}.",
                    f"Did you mean {near}?" if near else f"Let a stream of the dataflow name this {side}.",
                    task_id=task.id)


def from_ports(draft: Draft, *, task: MakeTask) -> None:
    """Put a task behind each port that streams come out of; they have it in common.

    What a stream says of its selectivity counts up to that task.
    """
    side = INPUT if draft.is_path else OUTPUT
    streams: list[DraftStream] = []
    made: dict[tuple[str, str], str] = {}
    for stream in draft.streams:
        if (node := stream.ports.get(side)) is None or stream.source is None:
            streams.append(stream)
            continue
        name, is_new = _at_port(made, draft, stream.source.value, node, FROM_PORT, task)
        here = DocumentNode(name, node.position)
        if is_new:
            streams.append(DraftStream(stream.source, here, stream.selectivity, stream.position))
        whole = None if stream.selectivity is None else 1.0
        streams.append(replace(stream, source=here, selectivity=whole, ports=_without(stream.ports, side)))
    draft.streams = streams


def into_ports(draft: Draft, *, task: MakeTask) -> None:
    """Put a task before each port that streams go into; they have it in common."""
    side = OUTPUT if draft.is_path else INPUT
    streams: list[DraftStream] = []
    made: dict[tuple[str, str], str] = {}
    for stream in draft.streams:
        if (node := stream.ports.get(side)) is None or stream.target is None:
            streams.append(stream)
            continue
        name, is_new = _at_port(made, draft, stream.target.value, node, INTO_PORT, task)
        here = DocumentNode(name, node.position)
        streams.append(replace(stream, target=here, ports=_without(stream.ports, side)))
        if is_new:
            streams.append(DraftStream(here, stream.target, None, stream.position))
    draft.streams = streams


def _at_port(
    made: dict[tuple[str, str], str], draft: Draft, end: str, node: DocumentNode, kind: str, task: MakeTask
) -> tuple[str, bool]:
    """The id of the task at a port, and whether it was not there before."""
    if (key := (end, node.value)) in made:
        return made[key], False
    name = made[key] = free_id(end, f".{node.value}", draft)
    stated = DocumentNode({PORT: node}, node.position, {PORT: node.position})
    draft.tasks[name] = task(name, kind, stated) or DraftTask(name, None, {}, node.position)
    return name, True


def _at(stream: DraftStream, side: str, draft: Draft) -> str:
    """The end of a stream that has ports on this side: the path's own, or what may be a dynamic task."""
    outside = PORT_KEYS[side]
    end = stream.source if (outside == "source") != draft.is_path else stream.target
    return "" if end is None else end.value


def _without(ports: Mapping[str, DocumentNode], side: str) -> dict[str, DocumentNode]:
    return {name: node for name, node in ports.items() if name != side}
