"""The ``latency`` of a document: read with places, and each mistake reported with what would be right."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

from .latency_limits import (
    LONGEST_S,
    OVER_S,
    PERCENTILES,
    SHORTEST_S,
    SHORTEST_SPAN_S,
    LatencyLimit,
    Limits,
    canonical,
    in_words,
    path_along,
    stream_ends,
)
from .positions import DocumentNode, Problems, shown
from .units import in_unit

NONE = "none"
_KEYS = ("limit", "along", "over", "percentile")
_FORM = "Write a time (400 ms, 2 s), none, or a mapping with limit and, if wanted, along, over and percentile."
MOST = 20  # limits of one dataflow
MOST_STREAMS = 40_000  # of a dataflow, times its limits: of each its slowest path is looked for some ten times a round
_MEASURED = f"{', '.join(map(str, PERCENTILES[:-1]))} or {PERCENTILES[-1]}"
_SOONEST = "Weir promises no less"
EACH_TASK = "List each task on the way, from the first to the last."
_MEASURED_EACH_S = "it is measured once a second, and in a shorter span too seldom to say anything"


def read_latency(
    node: DocumentNode | None, problems: Problems, *, tasks: Collection[str], streams: Collection[tuple[str, str]]
) -> Limits | None:
    """The limits that a document asks for; None where it has none or wrong ones, which are reported."""
    if node is None or node.value is None:
        return None
    if node.value == NONE:
        return ()
    entries = node.value if node.is_list else [node]
    most = min(MOST, max(1, MOST_STREAMS // max(1, len(streams))))
    if len(entries) > most:
        problems.add("out_of_range", node.position, f"There are {len(entries)} latency limits.",
                     f"Write at most {most}{f', as there are {len(streams):,} streams' * (most < MOST)}.")
        return None
    limits = [_limit(entry, problems, tasks, streams) for entry in entries]
    return None if None in limits else tuple(limit for limit in limits if limit is not None)


def _limit(
    node: DocumentNode, problems: Problems, tasks: Collection[str], streams: Collection[tuple[str, str]]
) -> LatencyLimit | None:
    if not node.is_mapping:
        limit_s = _time(node, problems, "latency limit", SHORTEST_S, _SOONEST)
        return None if limit_s is None else LatencyLimit(limit_s)
    for key in node.value:
        if key not in _KEYS:
            near = problems.nearest(key, _KEYS)
            problems.add("unknown_key", node.keys[key], f"A latency limit has no key {shown(key) or 'without a name'}.",
                         f"Did you mean {near}?" if near else f"It has {', '.join(_KEYS)}.")
    if "limit" not in node.value:
        problems.add("missing_key", node.position, "The latency limit needs limit.", "Add limit, as in limit: 400 ms.")
        return None
    limit_s = _time(node.value["limit"], problems, "latency limit", SHORTEST_S, _SOONEST)
    over = node.value.get("over")
    over_s = OVER_S if over is None or over.value is None else _time(
        over, problems, "span of a latency limit", SHORTEST_SPAN_S, _MEASURED_EACH_S)
    percentile, is_right = _percentile(node.value.get("percentile"), problems)
    along = _along(node.value.get("along"), problems, tasks, streams)
    if limit_s is None or over_s is None or along is None or not is_right:
        return None
    return LatencyLimit(limit_s, along, over_s, percentile)


def _time(node: DocumentNode, problems: Problems, noun: str, least_s: float, why_least: str) -> float | None:
    """Seconds up to `LONGEST_S`, written as a number of them or with a unit."""
    value = node.value
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        exact = in_unit(value, "s")
        seconds = None if exact is None else float(exact)
    if seconds is None or not math.isfinite(seconds):
        problems.add("ill_typed", node.position, f"The {noun} is no time.", _FORM)
        return None
    if not least_s <= seconds <= LONGEST_S:
        problems.add(
            "out_of_range", node.position, f"The {noun} is {in_words(seconds)}.",
            f"Write {in_words(least_s)} to {in_words(LONGEST_S)}{f': {why_least}' if seconds < least_s else ''}.")
        return None
    return seconds


def _percentile(node: DocumentNode | None, problems: Problems) -> tuple[float | None, bool]:
    if node is None or node.value is None:
        return None, True
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        problems.add("ill_typed", node.position, "The percentile must be a number.", f"Write {_MEASURED}.")
        return None, False
    if node.value not in PERCENTILES:
        problems.add("out_of_range", node.position, f"The percentile is {shown(node.value)}, which is not measured.",
                     f"Write {_MEASURED}.")
        return None, False
    return float(node.value), True


def _along(
    node: DocumentNode | None, problems: Problems, tasks: Collection[str], streams: Collection[tuple[str, str]]
) -> tuple[str, ...] | None:
    if node is None or node.value is None:
        return ()
    names = [entry.value for entry in node.value] if node.is_list else []
    if not names or not all(isinstance(name, str) for name in names):
        problems.add("ill_typed", node.position, "What a limit is along must be a list of tasks and streams.",
                     "List the tasks from the first to the last; a stream is written as a -> b.")
        return None
    for entry in node.value:
        unknown = next((task for task in stream_ends(entry.value) or (entry.value,) if task not in tasks), None)
        if unknown is not None:
            near = problems.nearest(unknown, tasks)
            problems.add("unknown_task", entry.position,
                         f"A latency limit names task {shown(unknown) or 'without an id'}, which does not exist.",
                         f"Did you mean {near}?" if near else "Name tasks of this dataflow.")
            return None
    apart = gap_in(names, streams)
    if apart is not None:
        at, (source, target) = apart
        problems.add("no_path", node.value[at].position, f"No stream goes from {source} to {target}.", EACH_TASK,
                     task_id=source)
        return None
    return canonical(names)


def gap_in(along: Sequence[str], streams: Collection[tuple[str, str]]) -> tuple[int, tuple[str, str]] | None:
    """The gap that keeps a sequence of tasks and streams from being a path: its element and the missing stream; None
    for a path."""
    for at in range(len(along)):
        for ends in pairwise(path_along(along[max(0, at - 1): at + 1])):
            if ends not in streams:
                return at, ends
    return None
