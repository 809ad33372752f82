"""Shorthand in documents: loops, which are unrolled; streams that are split, or have ports, by tasks.

All of them become ordinary tasks and streams when a document is read, so they have the same fingerprints as those.
"""

from __future__ import annotations

from dataclasses import replace

from .bounds import DOCUMENT_STREAMS
from .canonical import canonical_json
from .draft_values import Draft, DraftLoop, DraftStream, DraftTask, free_id
from .paths import ENDS, INPUT, OUTPUT
from .positions import DocumentNode, Problems, TextPosition
from .stream_ports import MakeTask, check_ports, from_ports, into_ports

ROUND_ROBIN, KEY_SPLIT = "round_robin", "key_split"  # the task types that deal a stream out


def write_out(draft: Draft, problems: Problems, *, task: MakeTask) -> None:
    """Let streams begin and end with tasks of loops, and put tasks where they have ports, or are split.

    Parameters
    ----------
    task : callable
        The task of an id, a type and a config, as it stands in the document; None where its type is not known.
    """
    _join_loops(draft, problems)
    check_ports(draft, problems)
    from_ports(draft, task=task)
    _split_streams(draft, problems, task=task)
    into_ports(draft, task=task)


def unroll(loop: DraftLoop, body: Draft, draft: Draft, problems: Problems) -> None:
    """Add the tasks and streams of each iteration to a draft; the output of an iteration is the input of the next.

    Parameters
    ----------
    loop : DraftLoop
        A loop whose ``body`` has neither problems nor split streams. Its beginning and end are noted in it.
    """
    first = [stream for stream in body.streams if _start(stream) == INPUT]
    last = [stream for stream in body.streams if _end(stream) == OUTPUT]
    for iteration in range(1, loop.times + 1):
        for name, step in body.tasks.items():
            if name not in ENDS:
                task_id = loop.in_iteration(iteration, name)
                draft.tasks[task_id] = replace(step, id=task_id)
        for stream in body.streams:
            if stream not in first and stream not in last:
                draft.streams.append(_joined(
                    stream, loop.in_iteration(iteration, _start(stream)), loop.in_iteration(iteration, _end(stream))))
        if iteration > 1:
            draft.streams += [
                _joined(tail, loop.in_iteration(iteration - 1, _start(tail)), loop.in_iteration(iteration, _end(head)))
                for tail in last for head in first]
        require_few(draft.streams, loop.position, problems)
    loop.entering = [loop.in_iteration(1, _end(stream)) for stream in first]
    loop.leaving = [loop.in_iteration(loop.times, _start(stream)) for stream in last]


def _join_loops(draft: Draft, problems: Problems) -> None:
    """Let streams that name a loop begin and end with tasks of its iterations."""
    streams: list[DraftStream] = []
    for stream in draft.streams:
        entered, left_loop = (draft.loops.get(name) for name in (_end(stream), _start(stream)))
        sources = [_start(stream)] if left_loop is None else left_loop.leaving
        targets = [_end(stream)] if entered is None else entered.entering
        streams += [_joined(stream, source, target) for source in sources for target in targets]
        require_few(streams, stream.position, problems)
    draft.streams = streams


def _split_streams(draft: Draft, problems: Problems, *, task: MakeTask) -> None:
    """Put a task at the head of each stream that is split; streams out of one task that carry one part have it in
    common."""
    made: dict[tuple[str, str], tuple[str, DraftStream]] = {}
    streams: list[DraftStream] = []
    for stream in draft.streams:
        if stream.split is None or stream.source is None:
            streams.append(stream)
            continue
        source, stated = stream.source.value, stream.split
        key = source, canonical_json(stated.plain())
        if key not in made:
            task_id = _free_id(source, stated, draft)
            before = replace(stream, target=DocumentNode(task_id, stated.position), split=None, ports={})
            split = task(task_id, KEY_SPLIT if "by" in stated.value else ROUND_ROBIN, stated)
            draft.tasks[task_id] = split or DraftTask(task_id, None, {}, stated.position)
            made[key] = task_id, before
            streams.append(before)
        task_id, before = made[key]
        if stream.selectivity != before.selectivity:
            problems.add(
                "two_selectivities", stream.position,
                f"Two streams out of {source} that carry the same part say different selectivities.",
                "Say the same at both: it is that of all events, before they are dealt out.")
        streams.append(replace(stream, source=DocumentNode(task_id, stated.position), selectivity=None, split=None))
    draft.streams = streams
    require_few(streams, TextPosition(1, 1), problems)


def require_few(streams: list[DraftStream], position: TextPosition, problems: Problems) -> None:
    """End the reading where there are more streams than a document may have."""
    if len(streams) > DOCUMENT_STREAMS.most:
        raise problems.stop(
            "too_many_streams", position,
            f"There are more than {DOCUMENT_STREAMS.most:,} streams, with those of each iteration of loops.",
            "Split the dataflow.")


def _start(stream: DraftStream) -> str:
    return "" if stream.source is None else stream.source.value


def _end(stream: DraftStream) -> str:
    return "" if stream.target is None else stream.target.value


def _joined(stream: DraftStream, source: str, target: str) -> DraftStream:
    """A stream between other tasks, where an end of it is known at all."""
    return replace(
        stream, source=stream.source and DocumentNode(source, stream.source.position),
        target=stream.target and DocumentNode(target, stream.target.position))


def _free_id(source: str, split: DocumentNode, draft: Draft) -> str:
    part, of = (node.value if (node := split.value.get(key)) is not None else "" for key in ("part", "of"))
    name = f".part{part}of{of}" if isinstance(part, int) and isinstance(of, int) else ".part"
    return free_id(source, name, draft)
