// The range of time that all charts of a page show: it stands in the address, and changes without loading the page.

const NAMES = ["range", "from", "to", "over"];
const DEFAULT_MS = 15 * 60 * 1000;
let shown = null; // the newest range that came with charts: { name, title, from_ms, to_ms, … }

/** The part of the address that says which time is looked at, to ask the site with. */
export function chosenRange() {
  const here = new URLSearchParams(location.search);
  return new URLSearchParams([...here].filter(([name]) => NAMES.includes(name)));
}

/** Go to another range: `{ range }`, or `{ from, to }` as ISO moments; what lies over it stays unless it is named. */
export function goTo(next) {
  const address = new URLSearchParams(location.search);
  const over = next.over ?? address.get("over") ?? "";
  for (const name of NAMES) address.delete(name);
  for (const name of ["range", "from", "to"]) if (next[name]) address.set(name, next[name]);
  if (over) address.set("over", over);
  history.pushState(null, "", `?${address}${location.hash}`);
  announce();
}

/** What the site says of the range that it has sent charts of. */
export function showRange(range) {
  shown = range;
  for (const bar of document.querySelectorAll("[data-time-bar]")) {
    const says = bar.querySelector("[data-part='says']");
    const over = range.over_empty ? `nothing is kept of ${range.over}` : range.over && `dotted: ${range.over}`;
    const text = [range.title, range.step_s > 1 && `a point is ${span(range.step_s)}`, over].filter(Boolean).join(" · ");
    if (says.textContent !== text) says.textContent = text;
    if (bar.contains(document.activeElement) && document.activeElement.type === "datetime-local") continue;
    bar.elements.from.value = moment(range.from_ms);
    bar.elements.to.value = moment(range.to_ms);
  }
}

function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 360) / 10} h`;
}

export function moment(ms) {
  return new Date(ms).toISOString().slice(0, 19);
}

/** Half a range earlier or later; who comes to the present looks at it live again. */
function step(by) {
  if (!shown) return;
  const length = shown.to_ms - shown.from_ms;
  const from = shown.from_ms + (by * length) / 2;
  const now = Date.now();
  const live = [...document.querySelectorAll("[data-range]")].find((link) => link.dataset.ms && Number(link.dataset.ms) === length);
  if (from + length >= now) goTo(live ? { range: live.dataset.range } : { from: moment(now - length), to: moment(now) });
  else goTo({ from: moment(from), to: moment(from + length) });
}

function mark() {
  const here = chosenRange();
  const still = here.has("from") || here.has("to");
  for (const bar of document.querySelectorAll("[data-time-bar]")) {
    const links = [...bar.querySelectorAll("[data-range]")];
    const name = still ? "" : links.some((link) => link.dataset.range === here.get("range")) ? here.get("range") : bar.dataset.default;
    for (const link of links) {
      if (link.dataset.range === name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
      link.href = `?range=${link.dataset.range}${here.get("over") ? `&over=${here.get("over")}` : ""}${location.hash}`;
    }
    bar.querySelector(".time-absolute summary").toggleAttribute("data-chosen", still);
    if (bar.elements.over) bar.elements.over.value = here.get("over") ?? "";
  }
}

function announce() {
  mark();
  document.dispatchEvent(new CustomEvent("weir:range"));
}

function onKey(event) {
  const by = { ",": -1, ".": 1 }[event.key];
  const busy = event.target.closest?.("input, textarea, select, [contenteditable], .graph-canvas") || document.querySelector("dialog[open]");
  if (by && !busy && !event.ctrlKey && !event.metaKey && !event.altKey) step(by);
}

function startBar(bar) {
  bar.addEventListener("click", (event) => {
    const link = event.target.closest("[data-range]");
    const button = event.target.closest("[data-time]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      goTo({ range: link.dataset.range });
    } else if (button) step(button.dataset.time === "earlier" ? -1 : 1);
  });
  bar.addEventListener("submit", (event) => {
    event.preventDefault();
    bar.querySelector(".time-absolute").open = false;
    goTo({ from: bar.elements.from.value, to: bar.elements.to.value });
  });
  bar.elements.over?.addEventListener("change", () => {
    const here = Object.fromEntries(chosenRange());
    goTo({ ...here, over: bar.elements.over.value });
  });
}

export function startRange() {
  for (const bar of document.querySelectorAll("[data-time-bar]")) startBar(bar);
  mark();
  addEventListener("popstate", announce);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll(".time-absolute[open]")) if (!open.contains(event.target)) open.open = false;
  });
}
