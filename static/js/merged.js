// The estate's merged graph: one dataflow's part, or what a search finds, is lit up and the rest fades.

import { GraphPanel } from "./graph_page.js";
import * as format from "./format.js";

const ROWS = 200;
const NAMED = 12;
const FIND_AFTER_MS = 120;

function cell(tag, text, className = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text instanceof Node) element.append(text);
  else element.textContent = text;
  return element;
}

export class MergedPanel extends GraphPanel {
  constructor(panel) {
    super(panel);
    this.side = document.querySelector(".explorer-side");
    this.find = this.side.querySelector("[data-part='find']");
    this.hits = this.side.querySelector("[data-part='hits']");
    this.side.addEventListener("click", (event) => this.press(event.target.closest("[data-light]")));
    this.find.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(), FIND_AFTER_MS);
    });
    this.find.addEventListener("keydown", (event) => this.onFind(event));
  }

  async load() {
    await super.load();
    if (!this.data || !this.graph.cy) return;
    this.words = new Map(this.data.tasks.map((task) => [
      task.id, `${task.label} ${task.type} ${JSON.stringify(task.config)}`.toLowerCase()]));
    const lit = this.data.dataflows.findIndex((dataflow) => dataflow.id === this.data.lit);
    if (lit >= 0) this.light(lit);
    else if (this.find.value.trim()) this.search();
    else this.rows(this.data.tasks);
  }

  /** Light up a dataflow's part; the same one again puts it out. */
  press(button) {
    if (!button || !this.graph.cy) return;
    const position = Number(button.dataset.light);
    const out = button.getAttribute("aria-pressed") === "true";
    this.find.value = "";
    this.narrow("");
    const address = new URL(location.href);
    for (const name of ["dataflow", "q"]) address.searchParams.delete(name);
    if (!out) address.searchParams.set("dataflow", button.dataset.id);
    else if (this.data.number > 1) address.searchParams.set("page", this.data.number);
    history.replaceState(null, "", address);
    if (out) this.shine(null);
    else this.light(position);
  }

  light(position) {
    const dataflow = this.data.dataflows[position];
    const tasks = this.data.tasks.filter((task) => task.of.includes(position));
    const shared = tasks.filter((task) => task.marks.includes("shared")).length;
    this.shine(tasks, `${dataflow.name}: ${tasks.length} tasks, ${shared} shared`, position);
    if (!this.data.large) return;
    this.graph.fit(); // from afar, and from there to the part: what was chosen before may be elsewhere
    this.graph.approach(new Set(tasks.map((task) => task.id)));
  }

  search() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.narrow(this.find.value);
    if (!words.length) return this.shine(null);
    const tasks = this.data.tasks.filter((task) => words.every((word) => this.words.get(task.id).includes(word)));
    this.at = -1;
    this.shine(tasks.length ? tasks : null, tasks.length ? `${format.count(tasks.length)} tasks found` : "");
    this.hits.hidden = false;
    const named = [...this.side.querySelectorAll("[data-light]")].filter((button) => !button.parentElement.hidden).length;
    this.hits.textContent = tasks.length || named
      ? `${format.count(named)} dataflows, ${format.count(tasks.length)} tasks${tasks.length ? ": Enter goes from one to the next" : ""}.`
      : "No task or dataflow matches.";
  }

  /** Only dataflows whose name or team has every word. */
  narrow(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of this.side.querySelectorAll("[data-part='dataflows'] li")) {
      const own = item.textContent.toLowerCase();
      item.hidden = !words.every((word) => own.includes(word));
    }
    this.hits.hidden = true;
  }

  onFind(event) {
    if (event.key === "Escape" && this.find.value) {
      this.find.value = "";
      this.search();
    } else if (event.key !== "Enter" || !this.lit?.length) return;
    else {
      this.at = ((this.at ?? -1) + 1) % this.lit.length;
      this.graph.approach(new Set([this.lit[this.at].id]));
      this.graph.select(this.lit[this.at].id);
    }
    event.preventDefault();
  }

  /** These tasks are lit and the others fade; none: everything is as it is. */
  shine(tasks, says = "", position = -1) {
    this.lit = tasks;
    for (const button of this.side.querySelectorAll("[data-light]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.light) === position));
    }
    this.panel.querySelector("[data-part='lit']").textContent = says;
    this.graph.light(tasks && new Set(tasks.map((task) => task.id)));
    this.rows(tasks ?? this.data.tasks);
  }

  /** The same tasks as rows, for whoever reads tables. */
  rows(tasks) {
    const body = this.panel.querySelector("[data-part='rows']");
    const real = tasks.filter((task) => task.page);
    body.replaceChildren(...real.slice(0, ROWS).map((task) => {
      const row = document.createElement("tr");
      const link = cell("a", task.label);
      link.href = `/estate/tasks/${task.page}`;
      const name = cell("th", link);
      name.scope = "row";
      const config = Object.entries(task.config).map(([key, value]) => `${key} ${JSON.stringify(value)}`).join(", ");
      row.append(name, cell("td", task.type, "mono"), cell("td", config || "–", "mono text-xs"), cell("td", this.users(task).length, "num"));
      return row;
    }));
    const more = this.panel.querySelector("[data-part='more-rows']");
    more.hidden = real.length <= ROWS;
    more.textContent = `${format.count(real.length - ROWS)} more: choose a dataflow, or search.`;
  }

  users(task) {
    return task.of.map((position) => this.data.dataflows[position]);
  }

  show(task) {
    if (task) {
      const users = this.users(task);
      task.users = users.slice(0, NAMED);
      if (users.length > NAMED) task.users.push({ name: `${users.length - NAMED} more`, team: "…" });
    }
    super.show(task);
  }
}
