// Tabs: one panel of a group shows; arrow keys move; the choice is kept in the address.

function choose(tab, { focus = false } = {}) {
  const list = tab.closest("[role='tablist']");
  for (const other of list.querySelectorAll("[role='tab']")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
  document.dispatchEvent(new CustomEvent("weir:tab", { detail: tab.id }));
}

function onKey(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const tabs = [...event.currentTarget.querySelectorAll("[role='tab']")];
  choose(tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length], { focus: true });
}

const named = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));

/** The tab that the address names: by its own name, or by that of something in its panel. */
function tabOf(list) {
  const panel = named()?.closest("[role='tabpanel']");
  return [...list.querySelectorAll("[role='tab']")].find((tab) => tab === named() || (panel && tab.getAttribute("aria-controls") === panel.id));
}

function openNamed() {
  for (const list of document.querySelectorAll("[role='tablist']")) {
    const tab = tabOf(list);
    if (!tab) continue;
    choose(tab);
    if (`#${tab.id}` !== location.hash) named().scrollIntoView();
  }
}

export function startTabs() {
  for (const list of document.querySelectorAll("[role='tablist']")) {
    list.addEventListener("keydown", onKey);
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role='tab']");
      if (!tab) return;
      choose(tab);
      if (list.dataset.keep !== undefined) history.replaceState(null, "", `#${tab.id}`);
    });
  }
  openNamed();
  addEventListener("hashchange", openNamed);
}
