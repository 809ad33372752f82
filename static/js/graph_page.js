// The graphs of a page: fetched, drawn, kept live; what is selected shows beside the canvas; a plan has three views.

import { fetchJson } from "./scripts.js";
import { Graph } from "./graph.js";
import * as format from "./format.js";

function line(list, name, value) {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value;
  list.append(term, description);
}

/** Latency of a stream is its channel's and the wait for the reader's batch; a fused stream has neither. */
function streamLatency(stream) {
  if (stream.channel_p50_ms == null) return null;
  return stream.channel_p50_ms + (stream.wait_p50_ms ?? 0);
}

/** Dead letters are those of a live source, or what another system refused of a sink. */
function metricsOf(state) {
  const tasks = Object.entries(state.tasks ?? {}).map(([id, task]) => [id, {
    rate_per_s: task.rate_per_s, latency_ms: task.latency_p50_ms, failed: task.failed, busy: task.busy, late: task.late,
    throttled: task.state === "throttled", silent: task.state === "silent", dead: state.sources?.[id]?.dead ?? state.sinks?.[id]?.refused }]);
  const streams = Object.entries(state.streams ?? {}).map(([id, stream]) => [id, {
    rate_per_s: stream.rate_per_s, latency_ms: streamLatency(stream), fused: stream.fused }]);
  return { tasks: Object.fromEntries(tasks), streams: Object.fromEntries(streams) };
}

/** A page that brings its graph along leaves out what is empty, and what follows from the rest. */
function filled({ tasks, streams, ...graph }) {
  return {
    ...graph,
    tasks: tasks.map((task) => ({ label: task.id, config: {}, users: [], note: "", marks: [], ...task })),
    streams: streams.map((stream) => ({ id: `${stream.source}>${stream.target}`, marks: [], ...stream })),
  };
}

export class GraphPanel {
  constructor(panel) {
    this.panel = panel;
    this.card = panel.querySelector(".graph-card");
    this.graph = new Graph(panel.querySelector(".graph-stage"), { onSelect: (task) => this.show(task) });
    panel.addEventListener("click", (event) => this.click(event.target.closest("[data-graph-do]")));
    document.addEventListener("weir:live", (event) => this.live(event.detail));
    this.load();
  }

  /** A page may bring its graph along, so that it is there at once. */
  async fetch() {
    const brought = this.panel.querySelector("script[type='application/json']");
    if (!brought) return fetchJson(this.panel.dataset.graph);
    brought.remove();
    return filled(JSON.parse(brought.textContent));
  }

  async load() {
    try {
      this.data = await this.fetch();
      if (!this.data) return;
      this.graph.draw(this.data);
      if (this.state) this.live(this.state);
      this.view(this.panel.dataset.view);
    } catch (error) {
      this.graph.say("The graph could not be read; the table has the same tasks.", true);
      console.error(error);
    }
  }

  live(state) {
    this.state = state;
    if (!state.tasks || !this.data) return;
    this.graph.update(metricsOf(state));
    const sharing = JSON.stringify(Object.entries(state.tasks).map(([id, task]) => [id, task.shared_with, task.on]));
    if (this.sharing !== undefined && this.sharing !== sharing) this.load();
    this.sharing = sharing;
    if (this.selected) this.show(this.selected);
  }

  click(button) {
    if (!button) return;
    const action = button.dataset.graphDo;
    if (action === "close") this.graph.cy?.nodes().unselect();
    else if (action === "table") this.table(button);
    else if (action.startsWith("view-")) this.view(action.slice(5));
    else if (!this.graph.cy) return;
    else if (action === "ways") this.graph.toggle(this.selected.id);
    else if (action === "fit") this.graph.fit();
    else this.graph.zoom(action === "in" ? 1.25 : 0.8);
  }

  table(button) {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    this.panel.querySelector(".graph-table").hidden = !shown;
    this.panel.querySelector(".graph-stage").hidden = shown;
  }

  /** Of a plan: the graph before, after, or both with what changes coloured. What is not there fades in its place. */
  view(name) {
    if (!name || !this.graph.cy) return;
    this.panel.dataset.view = name;
    for (const button of this.panel.querySelectorAll("[data-graph-do^='view-']")) {
      button.setAttribute("aria-pressed", String(button.dataset.graphDo === `view-${name}`));
    }
    this.graph.cy.batch(() => {
      for (const part of [...this.data.tasks, ...this.data.streams]) {
        this.graph.cy.getElementById(part.id).toggleClass("absent", part[name] === false);
        for (const way of part.ways ?? []) this.graph.cy.getElementById(`${part.id}//${way.name}`).toggleClass("absent", part[name] === false);
      }
    });
  }

  show(task) {
    this.selected = task;
    this.card.hidden = !task;
    if (!task) return;
    this.card.querySelector("[data-part='name']").textContent = task.label;
    this.card.querySelector("[data-part='type']").textContent = task.type;
    const list = this.card.querySelector("[data-part='facts']");
    list.replaceChildren();
    const open = this.card.querySelector("[data-part='open']");
    open.hidden = !task.page;
    if (task.page) open.href = `/estate/tasks/${task.page}`;
    const live = this.state?.tasks?.[task.id];
    if (task.status) line(list, "in this plan", { started: "starts", reused: "reused", stopped: "stops", neighbour: "stays as it is" }[task.status]);
    if (live) {
      line(list, "state", live.state);
      line(list, "rate", format.rate(live.rate_per_s));
      line(list, "latency", `${format.latency(live.latency_p50_ms)}, p99 ${format.latency(live.latency_p99_ms)}`);
      line(list, "events", format.count(live.events));
      line(list, "runs on", live.slot);
      if (live.error) line(list, "cause", live.error);
    } else if (task.slot) line(list, "runs on", task.slot);
    if (task.users.length) line(list, task.of ? "runs for" : "shared with", task.users.map((user) => `${user.name} (${user.team})`).join(", "));
    const ways = this.card.querySelector("[data-graph-do='ways']");
    ways.hidden = !task.ways || Boolean(this.data.large);
    ways.textContent = task.open ? "Close its alternates" : "Open its alternates";
    for (const way of task.ways ?? []) {
      line(list, way.name, [way.on ? "on" : "", way.does, way.guard ? `while ${way.guard}` : ""].filter(Boolean).join(", "));
    }
    if (task.unchained) line(list, "chain", "never: in a query of its own");
    const config = this.card.querySelector("[data-part='config']");
    config.textContent = JSON.stringify(task.config, null, 2);
    config.hidden = Boolean(task.ways) || Object.keys(task.config).length === 0;
  }
}

export function startGraphs({ merged, tasks }) {
  const panels = [...document.querySelectorAll("[data-graph]")].map((panel) => {
    const Kind = "merged" in panel.dataset ? merged : "tasks" in panel.dataset ? tasks : GraphPanel;
    return new Kind(panel);
  });
  window.weirGraphs = panels.map((panel) => panel.graph); // for the console, and for whoever tests what is drawn
}
