// The count of alerts in the navigation, kept as it is while a page stands open.

import { fetchJson } from "./scripts.js";

const EVERY_MS = 10000;

async function refresh(nav, link) {
  if (document.hidden) return;
  try {
    const { count } = await fetchJson(nav.dataset.alertCount);
    let badge = link.querySelector(".count");
    if (!badge && count) {
      badge = document.createElement("span");
      badge.className = "count";
      badge.title = "fire, and nobody has acknowledged them";
      link.append(badge);
    }
    if (badge) {
      badge.textContent = count;
      badge.hidden = count === 0;
    }
  } catch {
    // The number stands still until the site answers again.
  }
}

export function startAlertCount() {
  const nav = document.querySelector("[data-alert-count]");
  const link = nav?.querySelector('[data-place="alerts"]');
  if (!link) return;
  setInterval(() => refresh(nav, link), EVERY_MS);
  document.addEventListener("visibilitychange", () => refresh(nav, link));
}
