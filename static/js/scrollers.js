// Tables and texts that are larger than their place scroll; the keyboard must reach them to do that.

function mark() {
  for (const wrap of document.querySelectorAll(".table-wrap, pre")) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth + 1 || (wrap.tagName === "PRE" && wrap.scrollHeight > wrap.clientHeight + 1);
    if (scrolls) wrap.tabIndex = 0;
    else if (!wrap.hasAttribute("role")) wrap.removeAttribute("tabindex");
  }
}

export function startScrollers() {
  mark();
  addEventListener("resize", mark);
  document.addEventListener("htmx:after:swap", mark);
}
