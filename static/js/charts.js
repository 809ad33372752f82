// Charts over time: the site sends figures of the chosen range; live ranges are asked for again as they move on.

import { Plot, plotly, SERIES } from "./plots.js";
import { fetchJson } from "./scripts.js";
import { chosenRange, goTo, moment, showRange, startRange } from "./time_range.js";

const AGAIN_MS = 5000; // after a failure
const NARROW = matchMedia("(max-width: 620px)");

function ask(panel, more = {}) {
  const address = new URL(panel.dataset.charts, location.href);
  const range = panel.dataset.range ? new URLSearchParams({ range: panel.dataset.range }) : chosenRange();
  for (const [name, value] of [...range, ...Object.entries(more)]) address.searchParams.set(name, value);
  return fetchJson(address);
}

/** One chart: its figure, what screen readers are told of it, and its table. */
export class Chart {
  constructor(card, panel) {
    this.panel = panel;
    this.plot = new Plot(card);
    this.element = card.querySelector(".plot");
    this.name = card.dataset.chart;
    this.unit = card.querySelector("[data-part='unit']");
    this.off = new Set(); // lines that somebody has switched off
    this.list = Object.assign(document.createElement("ul"), { className: "chart-legend" });
    card.querySelector(".plot-shell").before(this.list);
    this.table = card.querySelector(".chart-table");
    this.table?.addEventListener("toggle", () => this.fillTable());
  }

  async draw(figure) {
    this.element.setAttribute("aria-label", figure.summary);
    if (this.unit) this.unit.textContent = figure.unit === "/s" ? "" : figure.unit; // its title says so
    this.legend(figure);
    const zooms = !figure.layout.xaxis.fixedrange && matchMedia("(pointer: fine)").matches;
    figure.layout.dragmode = zooms ? "zoom" : false;
    figure.layout.xaxis.fixedrange = !zooms;
    if (NARROW.matches) figure.layout.xaxis.nticks = 4;
    figure.least = 1;
    figure.off = this.off;
    figure.layout.showlegend = false;
    figure.layout.margin = { t: 20, r: 12 };
    await this.plot.draw(figure);
    if (figure.data.length && !this.listens) {
      this.listens = true;
      this.element.on("plotly_relayout", (change) => this.zoomed(change));
      this.element.on("plotly_hover", ({ xvals, event }) => event && this.point(xvals[0]));
      this.element.on("plotly_unhover", ({ event }) => event && this.point(null));
    }
    if (this.table?.open) await this.fillTable();
  }

  /** Beside the chart and not in it, where it would lie on lines and marks. */
  legend(figure) {
    const now = figure.data.filter((trace) => !trace.faint);
    const entries = now.length > 1 ? now.map((trace) => [`key key-${trace.series % SERIES.length}${trace.line?.dash ? " key-dashed" : ""}`, trace.name]) : [];
    for (const lane of figure.lanes ?? []) entries.push([`key key-${lane.series % SERIES.length}`, lane.name]);
    if (figure.data.some((trace) => trace.faint)) entries.push(["key key-faint", figure.over]);
    const key = entries.flat().join();
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.list.replaceChildren(...entries.map(([name, text]) => {
      const [item, key] = [document.createElement("li"), Object.assign(document.createElement("span"), { className: name })];
      if (now.some((trace) => trace.name === text)) item.append(this.switchOf(text, key));
      else item.append(key, text);
      return item;
    }));
  }

  /** A line's key in the legend switches it off and on. */
  switchOf(name, key) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!this.off.has(name)));
    button.append(key, name);
    button.addEventListener("click", () => {
      if (!this.off.delete(name)) this.off.add(name);
      button.setAttribute("aria-pressed", String(!this.off.has(name)));
      this.plot.draw(this.plot.figure);
    });
    return button;
  }

  /** One moment over all charts: where somebody points at in one, the others show theirs. */
  point(at) {
    for (const other of this.panel.querySelectorAll(".plot.js-plotly-plot")) {
      if (other === this.element || !other.checkVisibility()) continue;
      if (at === null) window.Plotly.Fx.unhover(other);
      else window.Plotly.Fx.hover(other, { xval: at }, "xy", true); // without telling of it
    }
  }

  /** What somebody draws a frame around becomes the range of the whole page. */
  zoomed(change) {
    const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (!from || !to || this.panel.dataset.range) return;
    const [begin, end] = [from, to].map((text) => Date.parse(`${text.replace(" ", "T")}Z`));
    goTo({ from: moment(begin), to: moment(Math.max(end, begin + 10000)) });
  }

  async fillTable() {
    if (!this.table.open) return;
    const body = this.table.querySelector("[data-part='table']");
    try {
      const answer = await ask(this.panel, { only: this.name, rows: "" });
      body.replaceChildren(tableOf(answer.charts[0]));
    } catch (error) {
      console.error(error);
      body.textContent = "No table came from the site. Close it and open it again.";
    }
  }
}

const cell = (tag, text, attributes = {}) => Object.assign(document.createElement(tag), { textContent: text }, attributes);

/** What was so from when until when, the newest first. */
function tableOfSpans(figure, table) {
  const head = table.createTHead().insertRow();
  for (const name of ["From (UTC)", "Until", "What", "Why"]) head.append(cell("th", name, { scope: "col" }));
  const body = table.createTBody();
  for (const span of [...figure.spans].sort((one, other) => Date.parse(other.from) - Date.parse(one.from))) {
    const times = [span.from, span.to].map((at) => moment(Date.parse(at)).replace("T", " "));
    body.insertRow().append(cell("th", times[0], { scope: "row", className: "nowrap" }), cell("td", times[1], { className: "nowrap" }), cell("td", span.what), cell("td", span.why));
  }
  if (!figure.spans.length) body.insertRow().append(cell("td", figure.empty));
  return table;
}

function tableOf(figure) {
  const table = document.createElement("table");
  table.className = "table";
  if (figure.spans) return tableOfSpans(figure, table);
  const head = table.createTHead().insertRow();
  head.append(cell("th", "Time (UTC)", { scope: "col" }));
  for (const trace of figure.data) head.append(cell("th", `${trace.name}${figure.unit ? `, ${figure.unit}` : ""}`, { scope: "col", className: "num" }));
  const body = table.createTBody();
  const rows = new Map(); // by moment: traces of an earlier time may have other steps
  figure.data.forEach((trace, index) => trace.y.forEach((value, number) => {
    if (value === null) return;
    const at = Date.parse(trace.x0) + number * trace.dx;
    if (!rows.has(at)) rows.set(at, []);
    rows.get(at)[index] = value;
  }));
  for (const at of [...rows.keys()].sort((one, other) => other - one)) {
    const row = body.insertRow();
    row.append(cell("th", moment(at).replace("T", " "), { scope: "row", className: "nowrap" }));
    for (let index = 0; index < figure.data.length; index += 1) {
      const value = rows.get(at)[index];
      row.append(cell("td", value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en-GB"), { className: "num" }));
    }
  }
  if (!rows.size) body.insertRow().append(cell("td", figure.empty));
  return table;
}

function listMarks(section, marks) {
  if (!section) return;
  section.hidden = !marks.length;
  section.querySelector("ol").replaceChildren(...marks.map((mark) => {
    const item = document.createElement("li");
    const number = Object.assign(document.createElement("span"), { className: `mark-number mark-${mark.tone}`, textContent: mark.number });
    const words = Object.assign(document.createElement("span"), { className: "grow" });
    words.append(Object.assign(document.createElement("strong"), { textContent: mark.what }), ` ${mark.text}`,
      Object.assign(document.createElement("span"), { className: "sub", textContent: mark.kind === "estate" ? mark.kind : `${mark.kind} ${mark.subject}` }));
    const at = moment(Date.parse(mark.at));
    const time = Object.assign(document.createElement("time"), { dateTime: mark.at, textContent: at.replace("T", " "), title: "UTC" });
    item.append(number, words, time);
    return item;
  }));
}

class Panel {
  constructor(element) {
    this.element = element;
    this.charts = [...element.querySelectorAll("[data-chart]")].map((card) => new Chart(card, element));
    this.asked = 0;
  }

  get visible() {
    return !document.hidden && this.element.offsetParent !== null;
  }

  async refresh() {
    clearTimeout(this.timer);
    if (!this.visible) return; // it is drawn when it comes to the front
    this.asked += 1;
    const turn = this.asked;
    let every = AGAIN_MS;
    try {
      const answer = await ask(this.element);
      if (turn !== this.asked) return; // another range was chosen meanwhile
      if (!this.element.dataset.range) showRange(answer.range);
      // One after the other, each shown before the next is begun: drawing takes the browser's whole attention.
      for (const chart of this.charts) {
        const figure = answer.charts.find((each) => each.name === chart.name);
        if (figure) await chart.draw(figure); // else it has lost its limit since the page was made
        await new Promise((resolve) => setTimeout(resolve));
        if (turn !== this.asked) return;
      }
      listMarks(this.element.querySelector("[data-part='marks']"), answer.marks);
      this.element.dataset.drawn = answer.range.title;
      every = 1000 * answer.range.every_s;
    } catch (error) {
      if (turn !== this.asked) return;
      console.error(error);
      this.fail(error);
      if (error.status === 400) every = 0; // asking again would not help
    }
    if (every) this.timer = setTimeout(() => this.refresh(), every);
  }

  /** What was drawn before stands until the next figures come; but not where another range was asked for. */
  fail(error) {
    const why = error.status === 400 ? "This time cannot be shown. Choose another range, of at most 90 days."
      : [403, 404].includes(error.status) ? "This is not there any more, or not for you to see."
        : "No figure came from the site. Trying again.";
    for (const chart of this.charts) if (error.status === 400 || !chart.plot.figure) chart.plot.fail(why);
  }
}

export function startCharts() {
  startRange();
  const panels = [...document.querySelectorAll("[data-charts]")].map((element) => new Panel(element));
  if (panels.some((panel) => panel.visible)) plotly(); // while the figures are on their way
  const refresh = () => panels.forEach((panel) => panel.refresh());
  refresh();
  for (const event of ["weir:range", "visibilitychange", "weir:tab"]) document.addEventListener(event, refresh);
}
