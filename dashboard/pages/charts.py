"""Charts over time: which a subject has, and each as a Plotly figure with what happened and an earlier time over it.

Pure: from kept history to JSON. Colours and fonts are the browser's, which knows the theme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dashboard.approvals.recent_moves import MovePause
from dashboard.operations.live_view.chart_marks import SMALL, Mark
from dashboard.operations.live_view.estate_history import KeptHistory
from scheduler.history.series import (
    ALARM,
    DATAFLOW,
    ESTATE,
    GRAINS,
    NODE,
    OVER,
    QUERY,
    SLOT,
    STREAM,
    TASK,
    metric_named,
)
from scheduler.model.plan_kinds import PLAN_KINDS, names_where

RATE = "rate"  # the chart of throughput
PARTS = "latency_parts"  # the chart of where latency goes
LABELS = 8  # of pauses on a chart at most: nearer ones have theirs where one points at them
MOST_GROUPS = 12  # of marks on a chart: nearer ones are one line
LANE = 0.06  # of a chart's height: in it lie small changes that come every few seconds, and no line through the chart
SCALES = {"ms": (2000.0, 0.001, "s"), "MB": (4096.0, 1 / 1024, "GB")}  # from which value on, times what, in which unit


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: ``lines`` are metrics by what they are called.

    ``without`` says why a subject may have none of these series though others of it are kept.
    """

    name: str
    title: str
    lines: Mapping[str, str]
    without: str = ""
    stacked: Sequence[str] = ()  # of its lines: those that lie on one another
    dashed: Sequence[str] = ()  # those that are no measurements

    @property
    def unit(self) -> str:
        """The unit of its values; empty where they count something."""
        metric = metric_named(next(iter(self.lines)))
        return metric.unit if metric else ""


_RATES = {"events_in_per_s": "in", "events_out_per_s": "out"}
_LATENCY = {"latency_mean_ms": "mean", "latency_p50_ms": "p50", "latency_p95_ms": "p95", "latency_p99_ms": "p99"}
_LAG = {"watermark_lag_ms": "behind"}
_BACKLOG = {"backlog_blocks": "blocks"}
_NO_CHANNELS = "Nothing of it is read from a channel: no blocks wait."
_ALONE = "This task shares its query with others, so its part is not measured. The charts of its query show the whole."
_FUSED = "Both tasks work in one query: no channel carries this stream."
CHARTS: Mapping[str, Sequence[Chart]] = {
    ESTATE: (
        Chart("rate", "Events per second", _RATES),
        Chart("latency", "Latency of the slowest sink", {"latency_p95_ms": "p95", "latency_p99_ms": "p99"}),
        Chart("tasks", "Running tasks", {"running_tasks": "running", "tasks_without_reuse": "without sharing"}),
        Chart("cpu", "CPU of all slots", {"cpu": "cores"}),
        Chart("memory", "Memory of all slots", {"memory_mb": "memory"})),
    DATAFLOW: (
        Chart("rate", "Events per second", _RATES),
        Chart("latency", "Latency, source to sink", _LATENCY),
        Chart(PARTS, "Where mean latency goes", {
            "latency_waiting_ms": "waiting for batches", "latency_transport_ms": "transport",
            "latency_working_ms": "work", "latency_limit_ms": "limit", "latency_min_ms": "min",
            "latency_max_ms": "max"},
              stacked=("latency_waiting_ms", "latency_transport_ms", "latency_working_ms"),
              dashed=("latency_limit_ms",)),
        Chart("limits", "Latency limits that are missed or impossible", {"limits_missed": "limits"},
              without="It has no latency limit, or none was looked at yet."),
        Chart("watermark", "Watermark, behind the clock", _LAG),
        Chart("backlog", "Blocks that wait in the fullest channel", _BACKLOG, without=_NO_CHANNELS),
        Chart("cpu", "CPU, its share", {"cpu": "cores"}),
        Chart("memory", "Memory, its share", {"memory_mb": "memory"}),
        Chart("tasks", "Running tasks", {"running_tasks": "running"})),
    TASK: (
        Chart("rate", "Events per second that leave it", {"rate_per_s": "rate"}),
        Chart("latency", "Latency since the source", _LATENCY),
        Chart("watermark", "Watermark, behind the clock", _LAG),
        Chart("late", "Events per second that come too late", {"late_per_s": "late"},
              without="No event has come too late for it."),
        Chart("cpu", "CPU", {"cpu": "cores"}, without=_ALONE),
        Chart("memory", "Memory, as a part of its slot's", {"memory": "memory"}, without=_ALONE)),
    STREAM: (
        Chart("rate", "Events per second", {"rate_per_s": "rate"}),
        Chart("channel", "Time in the channel", {
            "channel_mean_ms": "mean", "channel_p50_ms": "p50", "channel_p95_ms": "p95", "channel_p99_ms": "p99"},
              without=_FUSED),
        Chart("wait", "Wait for the reader's batch", {
            "wait_mean_ms": "mean", "wait_p50_ms": "p50", "wait_p99_ms": "p99"}, without=_FUSED),
        Chart("backlog", "Blocks that wait in the channel", _BACKLOG, without=_FUSED)),
    QUERY: (
        Chart("rate", "Events per second that it takes in", {"rate_per_s": "rate"}),
        Chart("phases", "Batches, by phase", {
            "batch_asking_ms": "asking sources", "batch_planning_ms": "planning", "batch_working_ms": "working",
            "batch_logging_ms": "logging"}),
        Chart("batch", "Duration of batches, and how far apart they begin", {
            "batch_ms": "batch", "trigger_ms": "apart"}),
        Chart("commits", "Commits of batches", {
            "batch_logging_ms": "offsets and commits", "batch_committing_ms": "state"}),
        Chart("checkpoint", "Age of its newest checkpoint", {"checkpoint_age_ms": "age"}),
        Chart("state", "State on its node's disk", {"state_mb": "state"}, without="It has no state."),
        Chart("restarts", "Restarts after failures, so far", {"restarts": "restarts"}),
        Chart("backlog", "Blocks that wait for it in the fullest channel", _BACKLOG, without=_NO_CHANNELS),
        Chart("watermark", "Watermark, behind the clock", _LAG),
        Chart("cpu", "CPU, its part of the slot", {"cpu": "cores"}),
        Chart("memory", "Memory, as a part of its slot's", {"memory": "memory"})),
    SLOT: (
        Chart("cpu", "CPU", {"cpu": "cores"}),
        Chart("memory", "Memory", {"memory_mb": "memory"})),
    NODE: (
        Chart("cpu", "CPU of its slots", {"cpu": "cores"}),
        Chart("memory", "Memory of its slots", {"memory_mb": "memory"}),
        Chart("speed", "Speed of its cores, as a part of what was calibrated", {"core_speed": "speed"},
              without="Nobody has calibrated its cores yet."),
        Chart("disk", "Free space of its data folder", {"disk_free_mb": "free"})),
}
_UNITS = {"/s": "/s", "ms": " ms", "s": " s", "MB": " MB", "GB": " GB", "cores": " cores", "blocks": "", "": ""}
# Of what happened: nouns of plans, and others where a name is not what people call it.
_WORDS = {name: kind.noun.lower() for name, kind in PLAN_KINDS.items()} | {
    **dict.fromkeys(names_where("has_document"), "merge"), "fragment_failed": "query failed",
    "slot_died": "driver ended", "joined_late": "started late", "sink_found_otherwise": "table made anew",
    "handed_over": "handover", ALARM: "problem", OVER: "resolved", "repaced": "interval"}
_PARTS = frozenset({"memory"})  # metrics that are a part of one


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier time over a chart for comparison: its history, its distance, and its name."""

    kept_history: KeptHistory
    offset_s: int
    title: str


def chart_figure(
    chart: Chart, kept_history: KeptHistory, *, earlier: Earlier | None = None, marks: Sequence[Mark] = (),
    pauses: Sequence[MovePause] = (), begin_s: int, end_s: int, now_s: int,
) -> dict[str, Any]:
    """A chart's figure.

    Returns
    -------
    dict
        ``data`` and ``layout`` as Plotly has them; ``unit``; ``over``: what lies over it; ``empty``: why there is
        nothing, where there is nothing; ``pauses``: bands, each with a ``text``, and a ``label`` where there is room
        for it; ``summary``: the chart in a sentence. A shape has its ``tone``, a trace its ``series`` (which colour)
        and whether it is ``faint``.
    """
    scale, unit = _scale(chart, [kept_history, *([earlier.kept_history] if earlier else [])])
    suffix = "%" if scale == 100 else _UNITS[unit]
    traces = _traces(chart, kept_history, scale=scale, suffix=suffix)
    if earlier is not None:
        traces += [
            trace | {"faint": True, "name": f"{trace['name']}, {earlier.title}", "mode": "lines"}
            for trace in _traces(chart, earlier.kept_history, scale=scale, suffix=suffix, later_s=earlier.offset_s)]
    bands = _bands(pauses, begin_s, end_s) if traces and chart.name == RATE else []
    return {
        "name": chart.name, "unit": suffix.strip(), "over": earlier.title if earlier else "", "data": traces,
        "layout": {
            "xaxis": {"range": [iso_moment(begin_s), iso_moment(end_s)]},
            "yaxis": {"ticksuffix": suffix},
            "shapes": mark_shapes(group_marks(marks, begin_s, end_s)) if traces else []},
        "empty": "" if traces else why_empty(chart, kept_history, end_s=end_s, now_s=now_s),
        "pauses": bands,
        "summary": " ".join([_summary(chart, traces, suffix), *(f"{band['text']}." for band in bands)])}


def why_empty(chart: Chart, kept_history: KeptHistory, *, end_s: int, now_s: int) -> str:
    """The reason why a chart has nothing to show, and when it will."""
    if end_s <= now_s - GRAINS[-1].keep_s:
        return "Points are kept for 90 days: this time is earlier."
    if not kept_history.values:
        return "Nothing is recorded of this yet. The line starts within seconds after the first events."
    if not any(metric in kept_history.values for metric in chart.lines):
        return chart.without or "This was never measured here. The line starts when a node reports it."
    return "Nothing was measured in this time. Choose another range, or check whether it ran then."


def group_marks(marks: Sequence[Mark], begin_s: int, end_s: int) -> list[list[Mark]]:
    """Marks that would lie on top of each other on a chart, together; the oldest first."""
    width_s = max(1, (end_s - begin_s) // MOST_GROUPS)
    groups: dict[int, list[Mark]] = {}
    for mark in marks:
        groups.setdefault((mark.at_s - begin_s) // width_s, []).append(mark)
    return [groups[key] for key in sorted(groups)]


def mark_rows(groups: Sequence[Sequence[Mark]]) -> list[dict[str, Any]]:
    """The marks as rows, the newest first, with the number that each has on the charts.

    Small changes of one subject that share a number share a row, which counts them and says the newest.
    """
    rows = [
        {"number": number, "at": iso_moment(mark.at_s), "what": _WORDS.get(mark.what, mark.what.replace("_", " ")),
         "text": mark.text if times == 1 else f"{mark.text} {times} such changes since {_clock(first_s)}.",
         "kind": mark.kind, "subject": mark.subject, "tone": mark.tone}
        for number, group in enumerate(groups, start=1) for mark, times, first_s in _folded(group)]
    return rows[::-1]


def _folded(group: Sequence[Mark]) -> list[tuple[Mark, int, int]]:
    """The marks of a group, small ones by their newest: each with how many it stands for, and when the first was."""
    small: dict[tuple[str, str, str], list[Mark]] = {}
    for mark in group:
        if mark.what in SMALL:
            small.setdefault((mark.what, mark.kind, mark.subject), []).append(mark)
    rows = [(mark, 1, mark.at_s) for mark in group if mark.what not in SMALL]
    rows += [(marks[-1], len(marks), marks[0].at_s) for marks in small.values()]
    return sorted(rows, key=lambda row: row[0].at_s)


def _clock(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def _traces(
    chart: Chart, kept_history: KeptHistory, *, scale: float, suffix: str, later_s: int = 0
) -> list[dict[str, Any]]:
    """The lines that have a value."""
    times = kept_history.times_s
    traces = []
    for index, (metric, label) in enumerate(chart.lines.items()):
        values = kept_history.values.get(metric, ())
        if any(value is not None for value in values):
            trace = {
                "type": "scatter", "mode": "lines", "name": label, "series": index,
                "x0": iso_moment(times[0] + later_s), "dx": 1000 * kept_history.step_s,
                "y": [None if value is None else round(value * scale, 4) for value in values], "connectgaps": False,
                "hovertemplate": f"%{{y:.4~g}}{suffix}",
                **({"line": {"dash": "dash"}} if metric in chart.dashed else {})}
            if metric in chart.stacked:
                traces.append(trace | {"stackgroup": "parts"})
            else:
                traces.append(trace | _alone(values))
    return traces


def _alone(values: Sequence[float | None]) -> dict[str, str]:
    """A single value between two gaps is no line: then points are drawn, too."""
    measured = [index for index, value in enumerate(values) if value is not None]
    lonely = [
        index for index in measured
        if (index == 0 or values[index - 1] is None) and (index + 1 == len(values) or values[index + 1] is None)]
    return {"mode": "lines+markers"} if lonely and len(lonely) * 2 >= len(measured) else {}


def _scale(chart: Chart, histories: Sequence[KeptHistory]) -> tuple[float, str]:
    """The factor on values, and the unit that they then have."""
    if _PARTS & set(chart.lines):
        return 100.0, ""
    above, scale, unit = SCALES.get(chart.unit, (float("inf"), 1.0, chart.unit))
    highest = max(
        (value for history in histories for metric in chart.lines for value in history.values.get(metric, ())
         if value is not None), default=0.0)
    return (scale, unit) if highest >= above else (1.0, chart.unit)


def mark_shapes(groups: Sequence[Sequence[Mark]]) -> list[dict[str, Any]]:
    """Groups of marks as lines with their numbers."""
    return [
        {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0,
         "y1": LANE if SMALL.issuperset(mark.what for mark in group) else 1, "tone": _worst_tone(group),
         "label": {"text": str(number), "textposition": "end", "textangle": 0, "xanchor": "center",
                   "font": {"size": 10}}}
        for number, group in enumerate(groups, start=1) for at in [iso_moment(group[0].at_s)]]


def _bands(pauses: Sequence[MovePause], begin_s: int, end_s: int) -> list[dict[str, str]]:
    """Pauses with their words. A pause has a label where none before it is near, on the side with more room."""
    bands, labelled_ms, apart_ms = [], -math.inf, 1000 * (end_s - begin_s) / LABELS
    for pause in pauses:
        has_room = pause.begin_ms - labelled_ms >= apart_ms
        labelled_ms = pause.begin_ms if has_room else labelled_ms
        took = f"{(pause.end_ms - pause.begin_ms) / 1000:.2f} s"
        bands.append({
            "begin": iso_moment(pause.begin_ms / 1000), "end": iso_moment(pause.end_ms / 1000),
            "label": took if has_room else "", "side": "right" if pause.begin_ms < 500 * (begin_s + end_s) else "left",
            "text": f"{pause.name} moved: still for a batch and {took}"})
    return bands


def _worst_tone(group: Sequence[Mark]) -> str:
    tones = {mark.tone for mark in group}
    return next(tone for tone in ("bad", "change", "ok") if tone in tones)


def _summary(chart: Chart, traces: Sequence[Mapping[str, Any]], suffix: str) -> str:
    parts = []
    for trace in traces:
        measured = [value for value in trace["y"] if value is not None]
        parts.append(
            f"{trace['name']}: last {measured[-1]:.4g}{suffix}, lowest {min(measured):.4g}{suffix}, highest "
            f"{max(measured):.4g}{suffix}")
    return f"{chart.title}. {'; '.join(parts)}." if parts else f"{chart.title}: nothing to draw."


def iso_moment(at_s: float) -> str:
    """A time in seconds since the epoch as Plotly reads it."""
    return datetime.fromtimestamp(at_s, UTC).isoformat()
