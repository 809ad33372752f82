// A dataflow's graph: laid out and drawn in one go, labelled live, read by keyboard too.

import cytoscape from "../vendor/cytoscape/cytoscape.js";
import * as format from "./format.js";
import { graphStyle } from "./graph_style.js";
import { layOut } from "./layout.js";

const MANY = 300;
const NARROW_PX = 560;
const READABLE = 0.72;
const LEAST_READABLE = 0.55;
const WIDTH = { least: 104, live: 132, most: 184 };
const NARROW_WIDTH = 124; // three boxes side by side fit a phone
const LINE = 16;
const BUSY = 0.8; // from here on a query has hardly any time left
const WAY = { height: 26, apart: 31, head: 54 }; // of an alternate, drawn in a task that is open

function lines(task) {
  const found = [task.label];
  if (task.note) found.push(task.note);
  if (task.ways && !task.open) found.push(`${onOf(task)}1 of ${task.ways.length} alternates`);
  if (task.metric || (!task.ways && task.type !== task.label)) found.push(task.metric ?? task.type);
  if (task.badge) found.push(task.badge);
  return found;
}

const textOf = (task) => lines(task).map((line) => clipped(line, task.width)).join("\n");

/** How a task does, as a colour and in words: what holds it up, what is lost or late, and how busy its query is. */
function condition(found) {
  const words = [];
  if (found.failed) words.push("failing");
  else if (found.silent) words.push("not reporting");
  if (found.throttled) words.push("back-pressure");
  else if (found.busy >= BUSY) words.push(`busy ${format.percent(found.busy)}`);
  if (found.late) words.push(`${format.count(found.late)} late`);
  if (found.dead) words.push(`${format.count(found.dead)} dead letters`);
  return { badge: words.join(" · "), failed: Boolean(found.failed || found.silent), throttled: Boolean(found.throttled), busy: found.busy >= BUSY };
}

/** The alternate that is on of a dynamic task, as its box begins; nothing where that is not known. */
function onOf(task) {
  const on = task.ways.find((way) => way.on);
  return on ? `${on.name} · ` : "";
}

/** An alternate as its box says it: whether it is on, and what it does. */
const wayText = (way, width) => clipped(`${way.on ? "●" : "○"} ${way.name}: ${way.does}`, width);

const ruler = document.createElement("canvas").getContext("2d");

/** A line that fits its box: as long as it is, or cut with an ellipsis. */
function clipped(line, width) {
  const fits = (text) => ruler.measureText(text).width <= width - 18;
  if (fits(line)) return line;
  let length = line.length - 1;
  while (length > 1 && !fits(`${line.slice(0, length)}…`)) length -= 1;
  return `${line.slice(0, length)}…`;
}

/** A box has room for its text and for the figures that will come, so that nothing moves when they do. */
function measured(graph, isNarrow, open) {
  const least = graph.labelled ? WIDTH.live : WIDTH.least;
  const tasks = graph.tasks.map((task) => {
    const isOpen = Boolean(task.ways) && open.has(task.id);
    const text = lines({ ...task, open: isOpen }).map((line) => ruler.measureText(line).width + 22);
    const wide = isNarrow ? NARROW_WIDTH : Math.ceil(Math.min(WIDTH.most, Math.max(least, ...text)));
    const extra = Boolean(task.note) + Boolean(task.ways) + Boolean(graph.labelled); // lines
    const height = isOpen ? WAY.head + task.ways.length * WAY.apart + 4 : 46 + LINE * extra;
    return { ...task, open: isOpen, width: isOpen ? Math.max(wide, WIDTH.most) * 1.25 : wide, height };
  });
  return { ...graph, tasks };
}

/** The alternates of open tasks as boxes of their own within them: no stream begins or ends there. */
function waysOf(task, [x, y]) {
  const width = task.width - 16;
  return task.ways.map((way, index) => ({
    data: { id: `${task.id}//${way.name}`, of: task.id, text: wayText(way, width), width, height: WAY.height, textWidth: 2 * width, shift: 0 },
    position: { x, y: y - task.height / 2 + WAY.head + index * WAY.apart + WAY.height / 2 },
    classes: way.on ? "way on" : "way",
  }));
}

/** ELK's bend points as Cytoscape wants them: how far along, and how far beside, the line from end to end. */
function bends(points) {
  const [start, end] = [points[0], points[points.length - 1]];
  const [dx, dy] = [end[0] - start[0], end[1] - start[1]];
  const length = Math.hypot(dx, dy) || 1;
  const weights = [];
  const distances = [];
  for (const [x, y] of points.slice(1, -1)) {
    const [px, py] = [x - start[0], y - start[1]];
    weights.push(((px * dx + py * dy) / (length * length)).toFixed(4));
    distances.push(((py * dx - px * dy) / length).toFixed(2));
  }
  return { weights: weights.join(" "), distances: distances.join(" ") };
}

function edgeData(stream, layout) {
  const points = layout.edges[stream.id];
  const data = { id: stream.id, source: stream.source, target: stream.target, text: "", weight: 1.4 };
  const near = (task, [x, y]) => `${x - layout.nodes[task][0]}px ${y - layout.nodes[task][1]}px`;
  data.from = near(stream.source, points[0]);
  data.to = near(stream.target, points[points.length - 1]);
  if (points.length === 2) return { data, classes: "pinned" };
  return { data: { ...data, ...bends(points) }, classes: "bent" };
}

function elements(graph, layout) {
  const nodes = graph.tasks.map((task) => ({
    data: {
      id: task.id, text: textOf(task), width: task.width, height: task.height, textWidth: 2 * task.width,
      shift: task.open ? WAY.head / 2 - task.height / 2 : 0,
    },
    position: { x: layout.nodes[task.id][0], y: layout.nodes[task.id][1] },
    classes: [task.kind, task.open ? "open" : "", ...(task.marks ?? [])].join(" "),
  }));
  for (const task of graph.tasks) if (task.open) nodes.push(...waysOf(task, layout.nodes[task.id]));
  const edges = graph.streams.map((stream) => {
    const edge = edgeData(stream, layout);
    return { ...edge, classes: [edge.classes, ...(stream.marks ?? [])].join(" ") };
  });
  return { nodes, edges };
}

/** A fused stream stays within one query: it has a rate, and no time passes on it. */
function streamText(found) {
  if (found.rate_per_s == null) return "";
  const latency = found.fused ? "fused" : format.latency(found.latency_ms);
  return `${format.rate(found.rate_per_s)}\n${latency}`;
}

export class Graph {
  /** Draws into a `.graph-stage`; `onSelect(task | null)` is told what the reader chose. */
  constructor(stage, { onSelect = () => {} } = {}) {
    this.stage = stage;
    this.canvas = stage.querySelector(".graph-canvas");
    this.wait = stage.querySelector(".graph-wait");
    this.onSelect = onSelect;
    this.metrics = null;
    this.open = new Set(); // dynamic tasks whose alternates are drawn
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("weir:theme", () => this.cy?.style(graphStyle({ large: this.graph.tasks.length > MANY })));
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  /** What is behind another tab is drawn once it has a place; a window that was turned gets another layout. */
  resized() {
    const hasPlace = this.stage.clientWidth > 0;
    const isTurned = this.cy && window.innerWidth !== this.windowWidth && this.shape().direction !== this.direction;
    if (!hasPlace || !(this.waits || isTurned)) {
      this.cy?.resize();
      return;
    }
    const chosen = this.cy?.nodes(":selected").first().id();
    this.kept = false;
    this.draw(this.given);
    if (chosen) this.select(chosen);
  }

  draw(graph) {
    this.waits = !this.stage.clientWidth;
    if (this.waits) {
      this.given = graph;
      this.stage.dataset.drawn = String(graph.tasks.length);
      return;
    }
    ruler.font = `500 12px ${getComputedStyle(document.body).fontFamily}`;
    const shape = this.shape();
    [this.given, this.direction, this.windowWidth] = [graph, shape.direction, window.innerWidth];
    this.graph = measured(graph, shape.direction === "DOWN", graph.large ? new Set() : this.open);
    this.byId = new Map(this.graph.tasks.map((task) => [task.id, task]));
    this.show(layOut(this.graph, shape));
    this.say("");
    this.stage.dataset.drawn = String(graph.tasks.length);
  }

  /** Narrow stages read downwards. */
  shape() {
    const { clientWidth, clientHeight } = this.stage;
    return { direction: clientWidth < NARROW_PX ? "DOWN" : "RIGHT", ratio: clientWidth / clientHeight };
  }

  say(message, failed = false) {
    this.wait.textContent = message;
    this.wait.hidden = !message;
    this.wait.toggleAttribute("data-failed", failed);
  }

  show(layout) {
    const view = this.cy && { zoom: this.cy.zoom(), pan: this.cy.pan() };
    this.cy?.destroy();
    const many = this.graph.tasks.length > MANY;
    this.stage.closest(".graph")?.toggleAttribute("data-many", many); // the legend shows what is drawn
    this.cy = cytoscape({
      container: this.canvas, elements: elements(this.graph, layout), layout: { name: "preset" }, style: graphStyle({ large: many }),
      minZoom: 0.015, maxZoom: 2.5, boxSelectionEnabled: false, autoungrabify: true,
      textureOnViewport: many, hideEdgesOnViewport: many, hideLabelsOnViewport: many,
    });
    // One who points at an alternate means its task.
    this.cy.on("select", "node", (event) => this.onSelect(this.byId.get(event.target.data("of") ?? event.target.id())));
    // Who goes on to another task has not let go of all of them.
    this.cy.on("unselect", "node", () => queueMicrotask(() => this.cy.nodes(":selected").empty() && this.onSelect(null)));
    this.cy.on("dbltap", "node", (event) => this.toggle(event.target.data("of") ?? event.target.id()));
    if (view && this.kept) this.cy.viewport(view);
    else this.fit();
    this.kept = true;
    if (this.metrics) this.update(this.metrics);
    if (this.lit) this.light(this.lit);
  }

  /** Open a dynamic task, so that its alternates are drawn inside, or close it. */
  toggle(id) {
    if (!this.byId.get(id)?.ways || this.graph.large) return;
    if (!this.open.delete(id)) this.open.add(id);
    this.draw(this.given);
    this.fit();
    this.select(id);
  }

  /**
   * New figures: `{tasks: {id: {rate_per_s, latency_ms, busy, late, dead, failed, silent,
   * throttled}}, streams: {id: {rate_per_s,
   * latency_ms, fused}}}`. The more flows on a stream, the thicker it is.
   */
  update(metrics) {
    this.metrics = metrics;
    if (!this.cy) return;
    this.cy.batch(() => {
      for (const [id, found] of Object.entries(metrics.tasks ?? {})) {
        const task = this.byId.get(id);
        if (!task) continue;
        task.metric = found.rate_per_s == null ? null : `${format.rate(found.rate_per_s)} · ${format.latency(found.latency_ms)}`;
        const { badge, ...classes } = condition(found);
        task.badge = badge;
        const node = this.cy.getElementById(id);
        const text = textOf(task);
        if (node.data("text") !== text) node.data("text", text);
        for (const [name, applies] of Object.entries(classes)) node.toggleClass(name, applies);
      }
      for (const [id, found] of Object.entries(metrics.streams ?? {})) {
        const edge = this.cy.getElementById(id);
        const text = streamText(found);
        if (edge.data("text") !== text) edge.data("text", text);
        edge.toggleClass("flowing", (found.rate_per_s ?? 0) > 0);
        const weight = 1.4 + 1.6 * Math.log10(1 + (found.rate_per_s ?? 0));
        if (Math.abs((edge.data("weight") ?? 0) - weight) > 0.2) edge.data("weight", weight);
      }
    });
  }

  /** Tasks of a document that problems are about, each as often as there are. */
  blame(ids) {
    this.cy?.batch(() => {
      for (const task of this.graph.tasks) {
        const count = ids.filter((id) => id === task.id).length;
        task.metric = count > 1 ? `${count} problems` : count ? "1 problem" : null;
        this.cy.getElementById(task.id).toggleClass("failed", count > 0).data("text", textOf(task));
      }
    });
  }

  fit() {
    this.cy.fit(undefined, 28);
    if (this.cy.zoom() > 1.15) {
      this.cy.zoom(1.15);
      this.cy.center();
    } else if (this.graph.tasks.length <= MANY && this.cy.zoom() < LEAST_READABLE) this.fromTheSources();
  }

  /** What is too long to be read whole begins with the sources, as near as all of its breadth allows; the rest follows. */
  fromTheSources() {
    const { x1, y1, w, h } = this.cy.elements().boundingBox();
    const { clientWidth, clientHeight } = this.stage;
    const isDown = this.shape().direction === "DOWN";
    const zoom = Math.min(READABLE, Math.max(LEAST_READABLE, isDown ? (clientWidth - 16) / w : (clientHeight - 40) / h));
    this.cy.zoom(zoom);
    const middle = { x: clientWidth / 2 - (x1 + w / 2) * zoom, y: clientHeight / 2 - (y1 + h / 2) * zoom };
    this.cy.pan(isDown ? { ...middle, y: 20 - y1 * zoom } : { ...middle, x: 20 - x1 * zoom });
  }

  zoom(factor) {
    const { width, height } = this.canvas.getBoundingClientRect();
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: width / 2, y: height / 2 } });
  }

  /** Light up these tasks and the streams between them; with none, everything is as it is. */
  light(ids) {
    this.lit = ids;
    if (!this.cy) return;
    this.cy.batch(() => {
      this.cy.elements().removeClass("lit dim");
      if (!ids) return;
      for (const node of this.cy.nodes()) node.addClass(ids.has(node.data("of") ?? node.id()) ? "lit" : "dim");
      for (const edge of this.cy.edges()) {
        edge.addClass(ids.has(edge.data("source")) && ids.has(edge.data("target")) ? "lit" : "dim");
      }
    });
  }

  /** Go near enough to read these tasks, where the whole is too far away for that. */
  approach(ids) {
    if (!this.cy || this.cy.zoom() >= READABLE) return;
    this.cy.fit(this.cy.nodes().filter((node) => ids.has(node.id())), 80);
    if (this.cy.zoom() > 1) this.cy.zoom({ level: 1, renderedPosition: { x: this.stage.clientWidth / 2, y: this.stage.clientHeight / 2 } });
  }

  step(by) {
    const ids = this.graph.tasks.map((task) => task.id);
    const at = ids.indexOf(this.cy.nodes(":selected").first().id());
    this.select(ids[(at + by + ids.length) % ids.length]);
  }

  select(id) {
    const node = this.cy.getElementById(id);
    if (!node.selected()) {
      this.cy.nodes().unselect();
      node.select();
    }
    this.reveal(node);
  }

  reveal(node) {
    const { x, y } = node.renderedPosition();
    const { width, height } = this.canvas.getBoundingClientRect();
    if (x < 60 || y < 40 || x > width - 60 || y > height - 40) this.cy.center(node);
  }

  onKey(event) {
    if (!this.cy || event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (pan) this.cy.panBy({ x: pan[0], y: pan[1] });
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0" || event.key === "f") this.fit();
    else if (event.key === "]") this.step(1);
    else if (event.key === "[") this.step(-1);
    else if (event.key === "Enter") this.toggle(this.cy.nodes(":selected").first().data("of") ?? this.cy.nodes(":selected").first().id());
    else if (event.key === "Escape") this.cy.nodes().unselect();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
