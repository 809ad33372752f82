"""A measurement as a page of figures: the two kinds of paper [4] (its figures 9 and 10), and the rates (figure 8)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.colors import qualitative

from .degradation import LEVELS, of_600
from .schemes import SCHEMES
from .summary import Cell, cells, disturbance, outputs, quiet_rows, rows

COLOURS = dict(zip(SCHEMES, qualitative.D3, strict=False))
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Migration schemes</title>
<link rel="icon" href="data:,"></head><body><h1>Migration schemes</h1>"""


def page(document: Mapping[str, Any]) -> str:
    """The whole page; it needs nothing besides itself."""
    everything = cells(document)
    drawn: list[go.Figure] = []
    for workload in dict.fromkeys(cell.workload for cell in everything):
        of_workload = [cell for cell in everything if cell.workload == workload]
        for moved in sorted({cell.moved for cell in of_workload}):
            here = [cell for cell in of_workload if cell.moved == moved]
            drawn += [degraded(here, f"{workload}, {_bundles(moved)}"), rates(here, f"{workload}, {_bundles(moved)}")]
        drawn.append(throughput(of_workload, workload))
    figures = [figure.to_html(full_html=False, include_plotlyjs=number == 0) for number, figure in enumerate(drawn)]
    machine = document["machine"]
    words = (
        f"{machine['cores']} cores and {machine['memory_gib']} GiB; load {document['load'][0]:.1f} before, "
        f"{document['load'][1]:.1f} after. Text: {document['text']}. {disturbance(document)}")
    tables = [_table(rows(document)), "<h2>Without moves</h2>", _table(quiet_rows(document)),
              "<h2>Outputs against the reference</h2>", _table(outputs(document))]
    return "\n".join([HEAD, f"<p>{escape(words)}</p>", *tables, *figures, "</body></html>"])


def degraded(of_moved: Sequence[Cell], title: str) -> go.Figure:
    """Seconds of 600 at each level of degradation, by scheme."""
    figure = go.Figure(layout={
        "title": f"Degradation, {title}", "barmode": "group", "xaxis": {"title": "degradation of at least"},
        "yaxis": {"title": "seconds of 600, ten moves", "rangemode": "tozero"}})
    for cell in of_moved:
        figure.add_bar(name=cell.scheme, marker_color=COLOURS[cell.scheme], x=[f"{level:.0%}" for level in LEVELS],
                       y=[of_600(cell.figures, level) for level in LEVELS])
    return figure


def throughput(of_workload: Sequence[Cell], title: str) -> go.Figure:
    """Events per second over all of the time with moves, by the number of bundles that move at once."""
    figure = go.Figure(layout={
        "title": f"Throughput, {title}", "barmode": "group", "xaxis": {"title": "bundles at once", "type": "category"},
        "yaxis": {"title": "% of the rate without moves", "rangemode": "tozero"}})
    for scheme, group in itertools.groupby(
            sorted(of_workload, key=lambda cell: list(SCHEMES).index(cell.scheme)), key=lambda cell: cell.scheme):
        usual = [cell for cell in group if cell.figures["usual_per_s"]]
        figure.add_bar(name=scheme, marker_color=COLOURS[scheme], x=[str(cell.moved) for cell in usual], y=[
            100 * cell.figures["throughput_per_s"] / cell.figures["usual_per_s"] for cell in usual])
    return figure


def rates(of_moved: Sequence[Cell], title: str) -> go.Figure:
    """The output's rate second by second, from one move to the next, one after the other."""
    figure = go.Figure(layout={
        "title": f"Rate, {title}", "xaxis": {"title": "s; a new line at each move"},
        "yaxis": {"title": "events/s", "rangemode": "tozero"}})
    for cell in of_moved:
        begun = 0
        for number, span in enumerate(cell.figures["rates_per_s"]):
            figure.add_scatter(
                name=cell.scheme, legendgroup=cell.scheme, showlegend=number == 0, mode="lines",
                line={"color": COLOURS[cell.scheme]}, x=list(range(begun, begun + len(span))), y=span)
            begun += len(span)
    return figure


def _bundles(moved: int) -> str:
    return f"{moved} bundle{'s' if moved > 1 else ''} at once"


def _table(table_rows: Sequence[Mapping[str, Any]]) -> str:
    if not table_rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in table_rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{'–' if value is None else escape(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in table_rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
