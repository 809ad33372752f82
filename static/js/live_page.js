// What a live page does with its topic: figures are written where they stand, and the parts whose shape has changed
// are asked for anew and morphed, so that focus and scrolling stay.

import { drawSpark, drawWeir } from "./figures.js";
import * as format from "./format.js";
import { LiveTopic } from "./live.js";
import { ageTimes } from "./menus.js";
import { fetchJson } from "./scripts.js";

// What somebody has opened stays open, whatever the site would show of it.
window.htmx.config.morphIgnore.push("open");

const REVIEWED = new Set(["pending", "stale"]);
const REFRESH_AFTER_MS = 250;
const HISTORY_EVERY_MS = 5000;
const WORDS = { live: "Live", connecting: "Connecting", offline: "Reconnecting", away: "Broker away", gone: "Not available" };
const DOTS = { live: "live", connecting: "connecting", offline: "offline", away: "offline", gone: "offline" };

function look(state, path) {
  return path.split("|").reduce((value, name) => value?.[name], state);
}

function write(element, value) {
  const shape = element.dataset.format ?? "text";
  if (shape === "meter") {
    element.value = value ?? 0;
    return;
  }
  const shown = format[shape](value);
  if (element.textContent !== shown) element.textContent = shown;
}

function writeFigures(state) {
  for (const element of document.querySelectorAll("[data-live]:not(body)")) write(element, look(state, element.dataset.live));
  const weir = document.getElementById("weir");
  if (weir && state.counts) drawWeir(weir, state.counts.running_tasks, state.counts.without_reuse);
}

/** What the page's markup depends on, as text: everything but figures that move by themselves. */
const MOVING = new Set(document.body.dataset.moving.split(" "));

export function shapeOf(state) {
  return JSON.stringify(state, (name, value) => (MOVING.has(name) ? undefined : value));
}

/** Ask for the page's parts anew and morph them, so that focus and scrolling stay. */
export function refreshParts() {
  const parts = [...document.querySelectorAll("[data-refresh][id]")];
  // Who types or is asked something keeps what is there; the next change comes soon enough.
  const busy = parts.some((part) => part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"));
  if (!parts.length || busy || document.querySelector("dialog[open]")) return;
  const selectOOB = parts.map((part) => `#${CSS.escape(part.id)}:outerMorph`).join(",");
  window.htmx.ajax("GET", location.pathname + location.search, { swap: "none", selectOOB });
}

class LivePage {
  constructor(topic) {
    this.live = new LiveTopic(topic);
    this.indicator = document.getElementById("connection");
    this.live.addEventListener("change", (event) => this.change(event.detail.state));
    this.live.addEventListener("connection", (event) => this.connection(event.detail));
    document.addEventListener("htmx:after:swap", () => this.restore());
    window.weirLive = this.live;
  }

  change(state) {
    writeFigures(state);
    document.dispatchEvent(new CustomEvent("weir:live", { detail: state }));
    const shape = shapeOf(state);
    if (this.otherPlan(state)) location.reload();
    // The first state too: something may have changed between the page's making and its first snapshot.
    else if (this.shape !== shape) this.refreshSoon();
    this.shape = shape;
  }

  /** A proposal's page is of one plan; where another stands now, or the review is over, the whole page is. */
  otherPlan(state) {
    const plan = document.querySelector("[data-plan]");
    if (!plan || state.steps === undefined) return false;
    return plan.dataset.plan !== (state.digest ?? "") || ("reviewing" in plan.dataset && !REVIEWED.has(state.status));
  }

  connection(status) {
    this.indicator.dataset.state = DOTS[status];
    this.indicator.querySelector("span").textContent = WORDS[status];
    document.body.dataset.connection = status;
    if (status === "gone") location.reload();
  }

  refreshSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), REFRESH_AFTER_MS);
  }

  refresh() {
    refreshParts();
  }

  restore() {
    ageTimes();
    if (this.live.state) writeFigures(this.live.state);
  }
}

async function drawHistory(spark) {
  if (document.hidden) return;
  try {
    const history = await fetchJson(spark.dataset.history);
    drawSpark(spark, history.events_in_per_s);
  } catch {
    // The line stands still until the site answers again.
  }
}

/** For pages whose figures are kept every few seconds and are no live topic's. */
export function startPolling(polled) {
  document.addEventListener("htmx:after:swap", () => {
    ageTimes();
    // Of another schedule, or of schedules where a profile was waited for, the whole page is another; it stays scrolled.
    const part = document.querySelector("[data-now]");
    if (part && part.dataset.now !== polled.dataset.of) location.reload();
  });
  // Logged out: what stands here would go on looking as of now. Whoever logs in again comes back.
  document.addEventListener("htmx:after:request", ({ detail }) => detail.ctx.response.raw.redirected && location.reload());
  setInterval(() => document.hidden || refreshParts(), Number(polled.dataset.pollMs));
}

export function startLivePage() {
  new LivePage(document.body.dataset.live).live.start();
  const spark = document.getElementById("spark");
  if (!spark) return;
  drawHistory(spark);
  setInterval(() => drawHistory(spark), HISTORY_EVERY_MS);
}
