// Keys: / searches, ? shows all keys, t changes the theme, g then a letter goes to a page.

import { toggleTheme } from "./theme.js";

const PLACES = { e: "estate", o: "problems", d: "dataflows", p: "proposals", b: "bills", t: "task-types", f: "profiles", a: "audit", h: "help" };
const CHORD_MS = 1200;
let chordUntil = 0;

function typing(event) {
  const target = event.composedPath()[0];
  return target instanceof Element && (target.closest("input, textarea, select, [contenteditable]") !== null);
}

function go(place) {
  const link = document.querySelector(`[data-place='${place}']`);
  if (link) location.assign(link.href);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event) || document.querySelector("dialog[open]")) return;
  if (Date.now() < chordUntil && PLACES[event.key]) {
    chordUntil = 0;
    go(PLACES[event.key]);
    return;
  }
  chordUntil = 0;
  if (event.key === "g") chordUntil = Date.now() + CHORD_MS;
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "n") go("new");
  else if (event.key === "/") {
    const search = [...document.querySelectorAll("[data-search]")].find((input) => input.offsetParent !== null);
    if (!search) return go("dataflows");
    event.preventDefault();
    search.focus();
    search.select();
  }
}

export function startShortcuts() {
  document.addEventListener("keydown", onKey);
}
