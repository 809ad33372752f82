"""The graph that a document's tasks and streams form: what it must be for each of them ever to matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import networkx as nx

from .draft_values import Draft
from .paths import OUTPUT
from .positions import DocumentNode, Problems, TextPosition, listed, shown


def check_graph(draft: Draft, problems: Problems) -> None:
    """Report streams that join nothing, tasks that can never work, and cycles; in paths, too."""
    for task in draft.tasks.values():
        for way in task.alternates.values():
            if way.path is not None:
                check_graph(way.path, problems.within(way.where, task.id))
    graph = nx.DiGraph()
    graph.add_nodes_from(draft.tasks)
    positions = _check_streams(draft, problems, graph)
    _check_ends(draft, problems, graph, positions)
    in_cycles = _check_cycles(problems, graph, positions)
    _check_reach(draft, problems, graph, in_cycles)


def _check_streams(draft: Draft, problems: Problems, graph: nx.DiGraph) -> dict[tuple[str, str], TextPosition]:
    positions: dict[tuple[str, str], TextPosition] = {}
    for stream in draft.streams:
        starts = _check_end(draft, problems, stream.source, "from")
        if not _check_end(draft, problems, stream.target, "to") or not starts:
            continue
        ends = (stream.source.value, stream.target.value)
        if ends[0] == ends[1]:
            problems.add(
                "self_loop", stream.position, f"A stream joins task {ends[0]} to itself.", "Remove it.", task_id=ends[0]
            )
        elif ends in positions:
            problems.add(
                "duplicate_stream", stream.position,
                f"The stream from {ends[0]} to {ends[1]} is there twice; the first is on line {positions[ends].line}.",
                "Remove one of the two.", task_id=ends[0],
            )
        else:
            positions[ends] = stream.position
            graph.add_edge(*ends)
    return positions


def _check_end(draft: Draft, problems: Problems, end: DocumentNode | None, word: str) -> bool:
    if end is None:
        return False
    if end.value in draft.tasks:
        return True
    if end.value not in draft.invalid_ids:  # else the id itself has been reported
        near = problems.nearest(end.value, draft.tasks)
        problems.add(
            "unknown_task", end.position,
            f"A stream goes {word} task {shown(end.value) or 'without an id'}, which does not exist.",
            f"Did you mean {near}?" if near else "Add the task, or remove the stream.",
        )
    return False


def _check_ends(
    draft: Draft, problems: Problems, graph: nx.DiGraph, positions: Mapping[tuple[str, str], TextPosition]
) -> None:
    for source, target in graph.edges:
        reader, writer = draft.tasks[target].type, draft.tasks[source].type
        if reader is not None and reader.kind == "source":
            problems.add(
                "source_with_input", positions[source, target], f"Source {target} has an input, from {source}.",
                "Remove the stream, or make the task a transform.", task_id=target,
            )
        if writer is not None and writer.kind == "sink":
            problems.add(
                "sink_with_output", positions[source, target], f"Sink {source} has an output, to {target}.",
                "Remove the stream, or let it start from the task before the sink.", task_id=source,
            )


def _check_cycles(
    problems: Problems, graph: nx.DiGraph, positions: Mapping[tuple[str, str], TextPosition]
) -> set[str]:
    """Report one cycle of each tangle of cycles, the shortest through its first task; return all tasks in tangles."""
    order = {task_id: index for index, task_id in enumerate(graph)}
    tangles = [tangle for tangle in nx.strongly_connected_components(graph) if len(tangle) > 1]
    for tangle in tangles:
        cycle = _cycle_through(min(tangle, key=order.__getitem__), graph, tangle)
        problems.add(
            "cycle", positions[cycle[-1], cycle[0]], f"Tasks form a cycle: {listed([*cycle, cycle[0]], ' → ')}.",
            "Remove one of its streams: events flow one way, from sources to sinks.", task_id=cycle[0],
        )
    return set().union(*tangles)


def _cycle_through(first: str, graph: nx.DiGraph, tangle: set[str]) -> list[str]:
    came_from: dict[str, str] = {}
    queue = deque([first])
    while first not in came_from:
        task_id = queue.popleft()
        for child in graph[task_id]:
            if child in tangle and child not in came_from:
                came_from[child] = task_id
                queue.append(child)
    cycle = [came_from[first]]
    while cycle[-1] != first:
        cycle.append(came_from[cycle[-1]])
    return cycle[::-1]


def _check_reach(draft: Draft, problems: Problems, graph: nx.DiGraph, in_cycles: set[str]) -> None:
    """Report tasks that no source reaches or that reach no sink. A task of unknown type may be either."""
    kinds = {task_id: task.type.kind if task.type else None for task_id, task in draft.tasks.items()}
    fed = _reached((task_id for task_id in kinds if kinds[task_id] in ("source", None)), graph)
    read = _reached((task_id for task_id in kinds if kinds[task_id] in ("sink", None)), graph.reverse(copy=False))
    for task_id, task in draft.tasks.items():
        if task.is_end:
            if task_id == OUTPUT and not graph.in_degree(task_id):
                problems.add("missing_input", task.position, "Nothing leaves: no stream goes to output.", "Add one.")
            continue
        if kinds[task_id] in ("transform", "sink") and not graph.in_degree(task_id):
            problems.add(
                "missing_input", task.position, f"The {kinds[task_id]} {task_id} has no input.",
                "Add a stream to it, or remove the task.", task_id=task_id,
            )
        elif task_id not in fed and task_id not in in_cycles:
            problems.add(
                "unreachable", task.position, f"No source reaches task {task_id}.",
                "Join it to a task that a source reaches, or remove it.", task_id=task_id,
            )
        if task_id not in read and task_id not in in_cycles:
            problems.add(
                "reaches_no_sink", task.position, f"Task {task_id} reaches no sink, so nobody would see what it does.",
                "Join it to a sink, or remove it.", task_id=task_id,
            )


def _reached(starts: Iterable[str], graph: nx.DiGraph) -> set[str]:
    stack = list(starts)
    reached = set(stack)
    while stack:
        for child in graph[stack.pop()]:
            if child not in reached:
                reached.add(child)
                stack.append(child)
    return reached

