"""Charts of a dynamic task: which alternate was on, and what its guards saw. Pure: from values to Plotly figures.

The chart of alternates has a row for each: a bar while it was on, a line below it while its guard was true, and one
above it while a dry run would have had it on. Each figure that guards name has a chart of its own, with what it is
compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.operations.live_view.chart_marks import Mark
from dashboard.pages.charts import group_marks, iso_moment, mark_shapes
from scheduler.contracts.switches import AlternateSwitch
from scheduler.guards.figure_streams import DATAFLOW_FIGURES
from scheduler.guards.guard_dry_run import GuardDryRun
from scheduler.guards.guard_traces import GuardTerm, GuardTrace
from scheduler.guards.task_figures import TASK_FIGURES
from scheduler.model.latency_limits import figure_in_words

ON = "on"  # the chart of alternates
POINTS = 480  # of a line
_ROWS = {"on": (0.44, -0.22), "true": (0.1, -0.38), "tried": (0.14, 0.28)}  # height and offset in an alternate's row
_NAMES = {"on": "on", "true": "its guard is true", "tried": "dry run: would be on"}
_SERIES = {"on": 0, "true": 3, "tried": 1}
_WORDS = {"=": "=", "<>": "≠", "<": "<", "<=": "≤", ">": ">", ">=": "≥"}


@dataclass(frozen=True, slots=True)
class AlternateSpan:
    """An alternate was on, or would have been, from one moment (ms since the epoch) to another."""

    alternate: str
    begin_ms: int
    end_ms: int
    why: str = ""


def spans_on(switches: Iterable[AlternateSwitch], *, begin_ms: int, end_ms: int) -> list[AlternateSpan]:
    """The spans of alternates that were on, as queries noted them; nothing before the first note."""
    noted = sorted(switches, key=lambda switch: switch.at_ms)
    ends = [switch.at_ms for switch in noted[1:]] + [end_ms]
    joined: list[AlternateSpan] = []
    for switch, until_ms in zip(noted, ends, strict=False):
        since = max(switch.at_ms, begin_ms)
        if min(until_ms, end_ms) <= since:
            continue
        if joined and joined[-1].alternate == switch.alternate:  # another query went on with it
            since = joined.pop().begin_ms
        joined.append(AlternateSpan(switch.alternate, since, min(until_ms, end_ms)))
    return joined


def spans_tried(run: GuardDryRun, first: str) -> list[AlternateSpan]:
    """The spans of alternates that a dry run would have had on; ``first`` is on until its first switch."""
    spans, on, since, reason = [], first, run.begin_ms, ""
    for change in run.switches:
        spans.append(AlternateSpan(on, since, change.at_ms, reason))
        on, since, reason = change.choice.alternate, change.at_ms, change.because
    return [*spans, AlternateSpan(on, since, run.end_ms, reason)] if run.end_ms > run.begin_ms else []


def alternates_figure(
    alternates: Sequence[str], *, on: Sequence[AlternateSpan], trace: GuardTrace | None,
    tried: Sequence[AlternateSpan] = (), marks: Sequence[Mark] = (), begin_s: int, end_s: int,
) -> dict[str, Any]:
    """The chart of alternates; times in seconds since the epoch."""
    true = [AlternateSpan(alternate, begin, end) for alternate, spans in (trace.true_ms if trace else {}).items()
            for begin, end in spans]
    bars = {kind: spans for kind, spans in (("on", on), ("true", true), ("tried", tried)) if spans}
    return {
        "name": ON, "unit": "", "over": "", "data": [_bars(kind, spans) for kind, spans in bars.items()],
        "layout": {
            "barmode": "overlay", "hovermode": "closest", "bargap": 0,
            "xaxis": {"range": [iso_moment(begin_s), iso_moment(end_s)]},
            "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": list(reversed(alternates)),
                      "range": [-0.5, len(alternates) - 0.5], "showgrid": False},
            "shapes": mark_shapes(group_marks(marks, begin_s, end_s)) if bars else []},
        "spans": [{"from": iso_moment(span.begin_ms / 1000), "to": iso_moment(span.end_ms / 1000),
                   "what": f"{span.alternate} {_NAMES[kind]}", "why": span.why}
                  for kind, spans in bars.items() for span in spans],
        "empty": "" if bars else "No data for this time. The bars begin when the first event reaches the task.",
        "summary": _summary(on, tried)}


def figure_charts(
    trace: GuardTrace, *, marks: Sequence[Mark] = (), begin_s: int, end_s: int
) -> list[dict[str, Any]]:
    """A chart for each figure that guards name, and for each calculation that they compare."""
    by_chart: dict[str, list[GuardTerm]] = {}
    for term in trace.terms:
        by_chart.setdefault(term.drawn_with, []).append(term)
    shapes = mark_shapes(group_marks(marks, begin_s, end_s))
    return [_figure(name, terms, trace, shapes, begin_s, end_s) for name, terms in by_chart.items()]


def chart_names(trace: GuardTrace) -> list[tuple[str, str, str]]:
    """The names of each such chart: in addresses, of its figure or calculation, and a description."""
    docs = {name: figure.doc for name, figure in TASK_FIGURES.items()} | {
        f"dataflow.{name}": figure.doc for name, figure in DATAFLOW_FIGURES.items()}
    return [(chart_name(name), name, docs.get(name, ""))
            for name in dict.fromkeys(term.drawn_with for term in trace.terms)]


def chart_name(text: str) -> str:
    """A figure or a calculation as the name of its chart in addresses and markup: no two have the same.

    Examples
    --------
    >>> chart_name("latency_ms"), chart_name("rate + 1")
    ('saw-latency_ms', 'saw-rate-20--2b--20-1')
    """
    return "saw-" + "".join(
        letter if letter == "_" or (letter.isascii() and letter.isalnum()) else f"-{ord(letter):x}-"
        for letter in text)


def _figure(
    name: str, terms: Sequence[GuardTerm], trace: GuardTrace, shapes: Sequence[Mapping[str, Any]], begin_s: int,
    end_s: int,
) -> dict[str, Any]:
    suffix = _unit_of(name)
    step_s = max(1, (end_s - begin_s) // POINTS)
    moments = range(begin_s * 1000, end_s * 1000 + 1, step_s * 1000)
    lines, limits = [], [limit for limit in trace.limits if limit.term in {term.text for term in terms}]
    for number, term in enumerate(terms):
        values = [None if value is None else round(float(value), 4) for value in term.at(moments)]
        if any(value is not None for value in values):
            lines.append({
                "type": "scatter", "mode": "lines", "name": term.text, "series": number, "x0": iso_moment(begin_s),
                "dx": 1000 * step_s, "y": values, "connectgaps": False, "hovertemplate": f"%{{y:.4~g}}{suffix}"})
    levels = [{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": limit.value, "y1": limit.value,
        "tone": "limit", "label": {
            "text": f"{limit.alternate}: {_WORDS[limit.word]} {limit.value:.6g}{suffix}", "textposition": "start",
            "xanchor": "left", "yanchor": "top", "font": {"size": 10}}} for limit in limits]
    alternates = {limit.alternate for limit in limits} or set(trace.true_ms)
    true = [(alternate, trace.true_ms[alternate]) for alternate in sorted(alternates) if trace.true_ms.get(alternate)]
    lanes = [{"name": f"guard of {alternate} is true", "series": series,
              "spans": [[iso_moment(begin / 1000), iso_moment(end / 1000)] for begin, end in spans]}
             for series, (alternate, spans) in zip((3, 2), true, strict=False)]
    return {
        "name": chart_name(name), "unit": suffix.strip(), "over": "", "data": lines,
        "layout": {"xaxis": {"range": [iso_moment(begin_s), iso_moment(end_s)]}, "yaxis": {"ticksuffix": suffix},
                   "shapes": [*shapes, *levels] if lines else []},
        "lanes": lanes if lines else [],
        "empty": "" if lines else "Nothing was measured in this time. The line begins when events reach the task.",
        "summary": f"{name}{f', in {suffix.strip()}' if suffix.strip() else ''}. " + "; ".join(
            f"{limit.alternate} asks for {limit.term} {limit.word} {limit.value:.6g}" for limit in limits)}


def _unit_of(name: str) -> str:
    """The unit of a figure, by its name as guards write it; empty for a calculation."""
    figure = name.rpartition(".")[2]
    if not figure.isidentifier():
        return ""
    return " ms" if figure.endswith("_ms") else "/s" if figure.startswith("rate") else (
        " cores" if figure.endswith("cpu") else "")


def _bars(kind: str, spans: Sequence[AlternateSpan]) -> dict[str, Any]:
    height, offset = _ROWS[kind]
    return {
        "type": "bar", "orientation": "h", "name": _NAMES[kind], "series": _SERIES[kind],
        "base": [iso_moment(span.begin_ms / 1000) for span in spans],
        "x": [span.end_ms - span.begin_ms for span in spans], "y": [span.alternate for span in spans],
        "width": height, "offset": offset,
        "customdata": [f"{span.alternate}: {_NAMES[kind]}, {figure_in_words((span.end_ms - span.begin_ms) / 1000)}"
                       for span in spans],
        "hovertemplate": "%{customdata}<extra></extra>"}


def _summary(on: Sequence[AlternateSpan], tried: Sequence[AlternateSpan]) -> str:
    was = f"{len(on) - 1} switches" if on else "Not known which was on"
    return f"Which alternate was on. {was}{f'; the dry run has {len(tried) - 1}' if tried else ''}."
