// The navigation, folded or opened on a narrow screen, menus that close by Escape or a click elsewhere, and relative times that age.

import { ago, until } from "./format.js";
import { toggleTheme } from "./theme.js";

const TIMES_EVERY_MS = 5000;
const COUNT_DOWN_EVERY_MS = 1000;

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

function toggleNav(button) {
  const nav = document.getElementById("nav");
  const open = nav.toggleAttribute("data-open");
  button.setAttribute("aria-expanded", String(open));
}

/** Beside each other or above each other: what one chooses is remembered. */
function fold() {
  const root = document.documentElement;
  root.dataset.side = root.dataset.side === "folded" ? "open" : "folded";
  try {
    localStorage.setItem("weir-side", root.dataset.side);
  } catch {
    // Storage may be closed to us; the next page then begins as usual.
  }
}

function closeNav() {
  const button = document.querySelector(".nav-toggle[aria-expanded='true']");
  if (button) toggleNav(button);
  return button;
}

/** Times that are past age, and those to come count down. */
export function ageTimes(root = document) {
  countDown(root);
  for (const element of root.querySelectorAll("time[datetime][data-ago]")) {
    const shown = ago(element.dateTime);
    if (element.textContent !== shown) element.textContent = shown;
  }
}

function countDown(root = document) {
  for (const element of root.querySelectorAll("time[data-until]")) {
    const shown = until(Number(element.dataset.until));
    if (element.textContent !== shown) element.textContent = shown;
  }
}

export function startMenus() {
  document.addEventListener("click", (event) => {
    closeMenus(event.target.closest("details.menu"));
    const button = event.target.closest("[data-action]");
    if (button?.dataset.action === "theme") toggleTheme();
    if (button?.dataset.action === "nav") toggleNav(button);
    if (button?.dataset.action === "fold") fold();
    if (button?.dataset.action === "copy") copy(button);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.querySelector("details.menu[open]");
    if (!menu) {
      closeNav()?.focus();
      return;
    }
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  ageTimes();
  setInterval(() => ageTimes(), TIMES_EVERY_MS);
  setInterval(() => countDown(), COUNT_DOWN_EVERY_MS);
}

async function copy(button) {
  const { text, of } = button.dataset; // a text of its own, or that of an element of the page
  await navigator.clipboard.writeText(of ? document.getElementById(of).textContent : text);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1500);
}
