// The count of alerts in the navigation, kept as it is while a page stands open.

import { fetchJson } from "./scripts.js";

const EVERY_MS = 10000;

async function refresh(nav) {
  if (document.hidden) return;
  try {
    const { count } = await fetchJson(nav.dataset.alertCount);
    for (const badge of document.querySelectorAll('[data-counts="alerts"]')) {
      badge.textContent = count;
      badge.title = `${count} to acknowledge`;
      badge.hidden = count === 0;
    }
  } catch {
    // The number stands still until the site answers again.
  }
}

export function startAlertCount() {
  const nav = document.querySelector("[data-alert-count]");
  if (!nav) return;
  setInterval(() => refresh(nav), EVERY_MS);
  document.addEventListener("visibilitychange", () => refresh(nav));
}
