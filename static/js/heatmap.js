// The heat map of overlap, drawn by Plotly: a pointer or arrow keys choose a cell, a click or Enter opens the pair.

import { percent } from "./format.js";
import { plain, plotly } from "./plots.js";
import { fetchJson, VENDOR } from "./scripts.js";
import { token } from "./theme.js";

const NAMED_UP_TO = 40; // dataflows; of more, names beside the cells could not be read
const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: true, doubleClick: "reset" };

class HeatMap {
  constructor(panel) {
    this.panel = panel;
    this.plot = panel.querySelector(".heat-plot");
    this.stage = panel.querySelector(".heat-stage");
    this.wait = panel.querySelector(".graph-wait");
    this.measure = panel.dataset.measure;
    this.cell = null;
    this.load();
  }

  async load() {
    try {
      [this.plotly, { dataflows: this.dataflows, shared: this.pairs }] = await Promise.all([plotly(VENDOR.plotlyMaps), fetchJson(this.panel.dataset.heatmap)]);
      this.shared = this.unpack(this.pairs);
      await this.draw();
      this.listen();
      this.wait.hidden = true;
      this.stage.dataset.drawn = String(this.dataflows.length);
    } catch (error) {
      this.wait.textContent = "The figures could not be read. The table has the strongest pairs.";
      this.wait.toggleAttribute("data-failed", true);
      console.error(error);
    }
  }

  /** The site sends the half above the diagonal, row after row; null is a dataflow with itself. */
  unpack(pairs) {
    const matrix = this.dataflows.map(() => Array(this.dataflows.length).fill(null));
    let next = 0;
    for (let row = 0; row < matrix.length; row += 1) {
      for (let column = row + 1; column < matrix.length; column += 1, next += 1) {
        matrix[row][column] = matrix[column][row] = pairs[next];
      }
    }
    return matrix;
  }

  share(row, column) {
    const smaller = Math.min(this.dataflows[row].tasks, this.dataflows[column].tasks);
    return smaller ? this.shared[row][column] / smaller : 0;
  }

  draw() {
    const byShare = this.measure === "share";
    const most = byShare ? 1 : this.pairs.reduce((high, value) => Math.max(high, value), 1);
    this.panel.querySelector("[data-part='least']").textContent = byShare ? "0%" : "0";
    this.panel.querySelector("[data-part='most']").textContent = byShare ? "100%" : `${most} tasks`;
    const trace = {
      type: "heatmap", hoverinfo: "none", showscale: false, zmin: 0, zmax: most, zsmooth: false,
      z: byShare ? this.shared.map((values, row) => values.map((value, column) => (value === null ? null : this.share(row, column)))) : this.shared,
      // The least overlap can be told from none.
      colorscale: [[0, token("--surface")], [0.001, token("--accent-line")], [0.6, token("--accent")], [1, token("--accent-strong")]],
      xgap: this.isNamed ? 2 : 0, ygap: this.isNamed ? 2 : 0,
    };
    return this.plotly.react(this.plot, [trace], this.layout(), CONFIG);
  }

  get isNamed() {
    return this.dataflows.length <= NAMED_UP_TO;
  }

  layout() {
    const names = this.dataflows.map(({ name }) => (name.length > 24 ? `${name.slice(0, 23)}…` : name));
    const axis = {
      showgrid: false, zeroline: false, showticklabels: this.isNamed, ticks: "", automargin: true, constrain: "domain",
      tickvals: names.map((_, at) => at), ticktext: plain(names), tickfont: { size: 12 },
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: token("--line"), dragmode: "pan", hovermode: "closest",
      font: { family: getComputedStyle(document.body).fontFamily, color: token("--ink-2") },
      margin: { l: 12, r: 12, t: 12, b: 12 }, uirevision: this.measure, shapes: this.frame(),
      xaxis: { ...axis, tickangle: -45, side: "top" }, yaxis: { ...axis, autorange: "reversed", scaleanchor: "x" },
    };
  }

  /** A frame around the chosen cell. */
  frame() {
    if (!this.cell) return [];
    const [row, column] = this.cell;
    return [{ type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5, line: { color: token("--ink"), width: 2 } }];
  }

  choose(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.plotly.relayout(this.plot, { shapes: this.frame() });
    this.describe();
  }

  describe() {
    const [row, column] = this.cell;
    const [first, second] = [this.dataflows[row], this.dataflows[column]];
    const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });
    const shared = this.shared[row][column];
    const sharing = shared ? ` share ${shared} task${shared === 1 ? "" : "s"}, ${percent(this.share(row, column))} of the smaller one` : " share no task";
    this.panel.querySelector("[data-part='says']").replaceChildren(
      ...(row === column ? [strong(first.name), ` ${first.team} · ${first.tasks} tasks`] : [strong(first.name), " and ", strong(second.name), sharing]));
  }

  open() {
    if (!this.cell) return;
    const [first, second] = this.cell.map((at) => this.dataflows[at].id);
    location.assign(first === second ? `/dataflows/${first}/` : `/estate/overlap/${first}/${second}`);
  }

  zoom(factor) {
    const around = (range, at) => range.map((end) => at + (end - at) / factor);
    const { xaxis, yaxis } = this.plot._fullLayout;
    const middle = ({ range: [from, to] }) => (from + to) / 2;
    const [row, column] = this.cell ?? [middle(yaxis), middle(xaxis)];
    this.plotly.relayout(this.plot, { "xaxis.range": around(xaxis.range, column), "yaxis.range": around(yaxis.range, row) });
  }

  fit() {
    this.plotly.relayout(this.plot, { "xaxis.autorange": true, "yaxis.autorange": "reversed" });
  }

  listen() {
    const cellOf = ({ points: [point] }) => [point.y, point.x];
    this.plot.on("plotly_hover", (event) => this.choose(cellOf(event)));
    this.plot.on("plotly_click", (event) => {
      const isChosen = String(cellOf(event)) === String(this.cell);
      this.choose(cellOf(event));
      // A finger chooses first and opens by the second touch; a mouse has chosen by pointing.
      if (isChosen || event.event.pointerType === "mouse") this.open();
    });
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.panel.addEventListener("click", (event) => this.press(event.target.closest("[data-heatmap-do]")));
    document.addEventListener("weir:theme", () => this.draw());
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const size = this.dataflows.length;
    if (step) this.choose((this.cell ?? [0, 0]).map((at, axis) => (at + step[axis] + size) % size));
    else if (event.key === "Enter") this.open();
    else if (["+", "=", "-"].includes(event.key)) this.zoom(event.key === "-" ? 1 / 1.4 : 1.4);
    else if (["0", "f"].includes(event.key)) this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  press(button) {
    const action = button?.dataset.heatmapDo;
    if (!action) return;
    if (action === "fit") this.fit();
    else if (action === "in" || action === "out") this.zoom(action === "in" ? 1.5 : 1 / 1.5);
    else {
      this.measure = action;
      for (const other of this.panel.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
      this.draw();
    }
  }
}

export function startHeatMap() {
  const panel = document.querySelector("[data-heatmap]");
  if (panel.querySelector(".heat-plot")) new HeatMap(panel);
}
