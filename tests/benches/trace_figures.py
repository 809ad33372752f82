"""Plots of traces as pages that open in any browser without a network: Plotly's library lies beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

LIBRARY, STYLE = "plotly.min.js", "page.css"
COLOURS = {"default": "#8a99a0", "reuse": "#0a7d92", "defragmented": "#c4701c"}
NAMES = {"default": "Default", "reuse": "Reuse", "defragmented": "Reuse, defragmented"}
INK, LINE = "#12232a", "#d9e2e4"
FONT = {"family": "Inter, system-ui, -apple-system, Segoe UI, sans-serif", "size": 13, "color": INK}
CSS = f"""
body {{ font-family: {FONT["family"]}; color: {INK}; background: #f4f7f7; max-width: 1320px; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .3rem; }}
p {{ margin: 0 0 1.2rem; color: #4b5d65; }}
section {{ background: #fff; border: 1px solid {LINE}; border-radius: 8px; margin: 0 0 1.2rem; padding: .8rem; }}
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{style}">
<script src="{library}"></script>
</head>
<body>
<h1>{title}</h1>
<p>{lead}</p>
{figures}
</body>
</html>
"""


def write_traces_page(path: Path, workloads: Mapping[str, Mapping[str, Any]]) -> Path:
    """Running tasks, queries and the histogram of reuse, for every trace of every workload."""
    figures = [_traces_figure(name, workload) for name, workload in workloads.items()]
    lead = (
        "Dataflows come and go, a step at a time. Default runs each by itself, Reuse runs equal tasks once. "
        "Dotted: with the dead tasks that removals leave in queries. Shaded: the steps over which savings are averaged."
    )
    return _write_page(path, "Reuse along traces", lead, figures)


def write_spark_page(
    path: Path, *, pair: Mapping[str, Any] | None = None, walk: Mapping[str, Any] | None = None
) -> Path:
    """What was measured on Spark: CPU of all dataflows at once, and cores in use along a trace."""
    figures = ([_pair_figure(pair)] if pair else []) + ([_walk_figure(walk)] if walk else [])
    lead = "RIoTBench-style dataflows on Spark, measured from the CPU time of their processes."
    return _write_page(path, "Reuse on Spark", lead, figures)


def _traces_figure(name: str, workload: Mapping[str, Any]) -> go.Figure:
    traces = workload["traces"]
    figure = make_subplots(
        rows=3,
        cols=len(traces),
        shared_yaxes="rows",
        vertical_spacing=0.11,
        horizontal_spacing=0.03,
        row_heights=[0.44, 0.28, 0.28],
        subplot_titles=[
            f"<b>{trace}</b>  {by_strategy['saving']['mean']:.0%} fewer tasks on average, "
            f"{by_strategy['saving']['peak']:.0%} at the peak"
            for trace, by_strategy in traces.items()
        ],
    )
    for column, by_strategy in enumerate(traces.values(), 1):
        for side in (side for side in NAMES if side in by_strategy):
            queries = [moment["queries"] for moment in by_strategy[side]]
            figure.add_trace(
                _steps(side, queries, "%{y} queries", filled=False, legend=column == 1), row=2, col=column
            )
            if side != "defragmented":  # which runs the same tasks as Reuse
                tasks = [moment["tasks"] for moment in by_strategy[side]]
                figure.add_trace(_steps(side, tasks, "%{y} running tasks"), row=1, col=column)
        standing = [moment["tasks"] + moment["paused"] for moment in by_strategy["reuse"]]
        figure.add_trace(_steps("reuse", standing, "%{y} with dead ones", filled=False, dash="dot"), row=1, col=column)
        begins, ends = by_strategy["walk"]
        if (begins, ends) != (0, len(by_strategy["changes"])):
            figure.add_vrect(begins, ends, row=1, col=column, fillcolor="#0a6b7c", opacity=0.05, line_width=0)
        several = {users: share for users, share in by_strategy["histogram"].items() if int(users) > 1}
        figure.add_trace(
            go.Bar(
                x=list(several), y=list(several.values()), marker_color=COLOURS["reuse"], showlegend=False, width=0.7,
                hovertemplate="%{y:.1%} of running tasks<br>serve %{x} dataflows<extra></extra>",
            ), row=3, col=column,
        )
        figure.update_xaxes(title_text="step", row=2, col=column)
        figure.update_xaxes(title_text="dataflows that a task serves", dtick=1, row=3, col=column)
    for row, (title, form) in enumerate((("running tasks", None), ("queries", None), ("share of tasks", ".0%")), 1):
        figure.update_yaxes(title_text=title, tickformat=form, row=row, col=1)
    return _dressed(figure, f"{name}: {workload['dataflows']} dataflows", height=800)


def _pair_figure(pair: Mapping[str, Any]) -> go.Figure:
    runs, parts = pair["medians"], {"jvm s": "Spark's drivers", "python s": "Python", "broker s": "broker"}
    figure = go.Figure([
        go.Bar(
            name=name, y=[NAMES[run["side"]] for run in runs], x=[run[part] for run in runs], orientation="h",
            marker_color=colour, hovertemplate="%{x:.1f} CPU s<extra>" + name + "</extra>", width=0.55,
        )
        for (part, name), colour in zip(parts.items(), ("#0a7d92", "#5fb3c1", "#c4701c"), strict=True)
    ])
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text=f"CPU seconds in {pair['sizes']['measured_s']:g} s")
    figure.update_yaxes(autorange="reversed")
    title = f"{runs[0]['dataflows']:g} dataflows at once: {pair['saved']:.0%} less CPU with Reuse"
    return _dressed(figure, title, height=330)


def _walk_figure(walk: Mapping[str, Any]) -> go.Figure:
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.64, 0.36])
    for side, steps in walk["steps"].items():
        labels = [step["change"] for step in steps]
        figure.add_trace(
            _steps(side, [step["cores"] for step in steps], "%{y:.2f} cores<br>%{text}", labels=labels, legend=True),
            row=1, col=1,
        )
        queries = [step["queries"] for step in steps]
        figure.add_trace(_steps(side, queries, "%{y} queries<br>%{text}", labels=labels, filled=False), row=2, col=1)
    figure.update_yaxes(title_text="cores in use", row=1, col=1)
    figure.update_yaxes(title_text="queries", row=2, col=1)
    figure.update_xaxes(title_text="step", row=2, col=1)
    return _dressed(figure, f"Cores in use along a trace ({walk['trace']})", height=560)


def _steps(
    side: str, values: Sequence[float], hover: str, *, labels: Sequence[str] = (), legend: bool = False,
    filled: bool = True, dash: str = "solid",
) -> go.Scatter:
    colour = COLOURS[side]
    return go.Scatter(
        x=list(range(1, len(values) + 1)), y=list(values), name=NAMES[side], legendgroup=side, showlegend=legend,
        mode="lines", line={"color": colour, "width": 2, "shape": "hv", "dash": dash},
        fill="tozeroy" if filled else None,
        fillcolor=f"rgba({', '.join(str(int(colour[at:at + 2], 16)) for at in (1, 3, 5))}, 0.12)",
        text=list(labels) or None, hovertemplate=f"{hover}<extra>{NAMES[side]}, step %{{x}}</extra>",
    )


def _dressed(figure: go.Figure, title: str, *, height: int) -> go.Figure:
    figure.update_layout(
        template="plotly_white", font=FONT, height=height, margin={"l": 70, "r": 30, "t": 90, "b": 60},
        title={"text": title, "font": {"size": 19}, "x": 0.0, "xref": "paper", "y": 0.985, "yanchor": "top"},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yref": "container", "yanchor": "top"},
        hoverlabel={"font": FONT}, bargap=0.3,
    )
    figure.update_annotations(font_size=13)
    figure.update_xaxes(gridcolor=LINE, zeroline=False)
    figure.update_yaxes(gridcolor=LINE, zerolinecolor=LINE, rangemode="tozero")
    return figure


def _write_page(path: Path, title: str, lead: str, figures: Sequence[go.Figure]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    library = path.parent / LIBRARY
    if not library.exists():
        library.write_text(get_plotlyjs(), encoding="utf-8")
    (path.parent / STYLE).write_text(CSS.lstrip(), encoding="utf-8")
    drawn = "\n".join(
        f"<section>{figure.to_html(full_html=False, include_plotlyjs=False)}</section>" for figure in figures
    )
    page = PAGE.format(title=escape(title), lead=escape(lead), library=LIBRARY, style=STYLE, figures=drawn)
    path.write_text(page, encoding="utf-8")
    return path
