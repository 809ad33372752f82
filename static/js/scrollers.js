// Tables and texts that are larger than their place scroll; the keyboard must reach them to do that. And who sends a form
// that leads back to its page comes back to where they were.

const KEPT = "weir-place";
const AGO_MS = 60000;

function mark() {
  for (const wrap of document.querySelectorAll(".table-wrap, .prose table, pre")) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth + 1 || (wrap.tagName === "PRE" && wrap.scrollHeight > wrap.clientHeight + 1);
    if (scrolls) wrap.tabIndex = 0;
    else if (!wrap.hasAttribute("role")) wrap.removeAttribute("tabindex");
  }
}

function leave(event) {
  if (event.defaultPrevented || event.target.method !== "post") return;
  sessionStorage.setItem(KEPT, JSON.stringify({ path: location.pathname, hash: location.hash, y: scrollY, at: Date.now() }));
}

/** Before tabs are chosen, for the one that was open is part of the place. */
export function comeBack() {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  sessionStorage.removeItem(KEPT);
  if (!kept || kept.path !== location.pathname || location.hash || Date.now() - kept.at > AGO_MS) return;
  if (kept.hash) history.replaceState(history.state, "", kept.hash);
  requestAnimationFrame(() => scrollTo(0, kept.y));
}

export function startScrollers() {
  mark();
  document.addEventListener("submit", leave);
  addEventListener("resize", mark);
  document.addEventListener("htmx:after:swap", mark);
  document.addEventListener("weir:tab", mark); // what was hidden had no size
}
