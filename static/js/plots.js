// Plots over time: figures come as JSON from the site, Plotly draws them in the theme's colours.

import { fetchJson, loadScript, VENDOR } from "./scripts.js";
import { token } from "./theme.js";

const EVERY_MS = 5000;
// Plotly's map code adds a style element, which the policy forbids, unless an element of this id is there.
const MAP_STYLE = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
export const SERIES = ["--series-0", "--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];
// On a wall, charts are read from some metres.
const TEXT = document.body.hasAttribute("data-wall") ? Math.max(12, Math.round(innerWidth / 80)) : 12;
const TONES = { bad: "--bad", ok: "--ok", change: "--accent", limit: "--ink-2" };
const LANE = 0.045; // of a chart's height, at its foot

/** A text, or a list of what may be texts, as Plotly shows it as it is: it reads tags, and some are values of events. */
export function plain(text) {
  if (Array.isArray(text)) return text.map(plain);
  return typeof text === "string" ? text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;") : text;
}

/** `height` is that of its frame, within which the chart stays. */
function layout(figure, height) {
  const axis = {
    gridcolor: token("--line"), linecolor: token("--line"), zeroline: false, tickcolor: token("--line"),
    tickfont: { size: TEXT - 1 }, fixedrange: true, automargin: true, rangemode: "tozero",
  };
  const given = figure.layout ?? {};
  return {
    ...given,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: TEXT, color: token("--ink-2") },
    margin: { l: 52, r: 16, t: 8, b: 30, ...given.margin }, height: given.height ?? (height || 250), autosize: true, hovermode: given.hovermode ?? "x unified", showlegend: given.showlegend ?? figure.data.length > 1,
    legend: { orientation: "h", y: 1.12, x: 1, xanchor: "right", font: { size: TEXT - 1 }, ...given.legend },
    hoverlabel: { bgcolor: token("--raised"), bordercolor: token("--line"), font: { color: token("--ink") } },
    xaxis: { ...axis, rangemode: "normal", type: "date", ...given.xaxis },
    yaxis: { ...axis, ...given.yaxis, title: undefined },
    ...(given.yaxis2 && { yaxis2: { ...axis, showgrid: false, ...given.yaxis2 } }),
    shapes: given.shapes && [...given.shapes.map(({ tone, ...shape }) => {
      const color = token(TONES[tone] ?? "--ink-3");
      return { ...shape, label: { ...shape.label, text: plain(shape.label?.text), font: { ...shape.label?.font, color } }, line: { color, width: 1.5, dash: "dot" } };
    }), ...(figure.pauses ?? []).map(band), ...(figure.lanes ?? []).flatMap(lane)],
  };
}

/** From when something stood still until it went on. Its edge can be seen where the band is narrower than a pixel. */
function band({ begin, end, label, side }) {
  const color = token("--warn");
  return {
    type: "rect", name: "pause", xref: "x", yref: "paper", x0: begin, x1: end, y0: 0, y1: 0.9, layer: "above",
    fillcolor: color, opacity: 0.45, line: { color, width: 1 },
    label: { text: plain(label), textposition: side === "left" ? "bottom right" : "bottom left", textangle: 0, xanchor: side === "left" ? "right" : "left", padding: 4, font: { size: TEXT - 2, color: token("--ink") } },
  };
}

/** When something was so, as a line at the foot of a chart. */
function lane({ series, spans }, row) {
  const color = token(SERIES[series % SERIES.length]);
  return spans.map(([begin, end]) => ({
    type: "rect", xref: "x", yref: "paper", x0: begin, x1: end, y0: row * LANE + 0.006, y1: (row + 1) * LANE - 0.006,
    layer: "above", fillcolor: color, opacity: 0.85, line: { width: 0 },
  }));
}

/** What is said of each band where one points at it: shapes have no such text. */
function notesOf(pauses) {
  const color = token("--warn");
  return {
    type: "scatter", mode: "markers", name: "pause", showlegend: false, x: pauses.map(({ end }) => end), y: pauses.map(() => 0),
    text: pauses.map(({ text }) => plain(text)), hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
    marker: { color, symbol: "triangle-up", size: 9, line: { color: token("--raised"), width: 1 } },
  };
}

/** What of a trace Plotly may read as text. */
function texts(trace) {
  const names = ["name", "text", "customdata", "x", "y"].filter((name) => name in trace);
  return Object.fromEntries(names.map((name) => [name, plain(trace[name])]));
}

function traces(figure) {
  const drawn = figure.data.map(({ series, faint, ...trace }, index) => {
    const color = token(SERIES[(series ?? index) % SERIES.length]);
    return {
      ...trace, ...texts(trace), visible: !figure.off?.has(trace.name), line: { ...trace.line, color, width: faint ? 1.2 : 1.8, ...(faint && { dash: "dot" }) }, opacity: faint ? 0.75 : 1,
      marker: { ...trace.marker, color, ...(trace.mode === "lines+markers" && { size: 4 }) }, fillcolor: "rgba(0,0,0,0)",
    };
  });
  return figure.pauses?.length ? [...drawn, notesOf(figure.pauses)] : drawn;
}

/** Plotly; `bundle` is the one of its bundles that this page has. */
export async function plotly(bundle = VENDOR.plotly) {
  if (!document.getElementById(MAP_STYLE)) {
    const placeholder = document.createElement("meta");
    placeholder.id = MAP_STYLE;
    document.head.append(placeholder);
  }
  await loadScript(bundle, () => Boolean(window.Plotly));
  return window.Plotly;
}

export class Plot {
  constructor(shell) {
    this.shell = shell;
    this.element = shell.querySelector(".plot");
    this.empty = shell.querySelector(".plot-empty");
    document.addEventListener("weir:theme", () => this.figure && this.draw(this.figure));
  }

  async draw(figure) {
    this.figure = figure;
    const points = Math.max(0, ...figure.data.map((trace) => (trace.y ?? trace.x)?.length ?? 0));
    const enough = points >= (figure.least ?? 2);
    this.empty.hidden = enough;
    this.element.hidden = !enough;
    if (!enough) {
      this.empty.textContent = figure.empty ?? "No history yet. The line starts after the first minute of events.";
      return;
    }
    await (await plotly()).react(this.element, traces(figure), layout(figure, this.element.parentElement.clientHeight), { displayModeBar: false, responsive: true });
    this.shell.dataset.drawn = "";
  }

  /** Say why there is no figure, in its place. */
  fail(why) {
    this.figure = null;
    this.empty.textContent = why;
    this.empty.hidden = false;
    this.element.hidden = true;
  }
}

async function refresh(panel, plots) {
  if (document.hidden || panel.hidden || panel.offsetParent === null) return;
  // What was measured once does not move.
  if ("still" in panel.dataset && plots.every((plot) => plot.figure)) return;
  try {
    const figures = await fetchJson(panel.dataset.plots);
    await Promise.all(plots.map((plot) => plot.draw(figures[plot.shell.dataset.figure])));
  } catch (error) {
    console.error(error);
    // What was drawn before stands until the next figure comes.
    const advice = "still" in panel.dataset ? "Reload the page to try again." : "Trying again.";
    for (const plot of plots) if (!plot.figure) plot.fail(`No figure came from the site. ${advice}`);
  }
}

export function startPlots() {
  for (const panel of document.querySelectorAll("[data-plots]")) {
    const plots = [...panel.querySelectorAll("[data-figure]")].map((shell) => new Plot(shell));
    const draw = () => refresh(panel, plots);
    draw();
    // What is behind another tab, of the browser's or the page's, is drawn when it comes to the front.
    for (const event of ["visibilitychange", "weir:tab"]) document.addEventListener(event, draw);
    if (!("still" in panel.dataset)) setInterval(draw, 1000 * panel.dataset.every || EVERY_MS);
  }
}
