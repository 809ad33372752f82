// The search over everything, in a dialog that Ctrl+K opens: results as one types, chosen by arrow keys and Enter.

import { fetchJson } from "./scripts.js";

const ASK_AFTER_MS = 120;

class Find {
  constructor(dialog) {
    this.dialog = dialog;
    this.input = dialog.querySelector("input");
    this.results = dialog.querySelector("[data-part='results']");
    this.input.addEventListener("input", () => this.typed());
    dialog.addEventListener("keydown", (event) => this.key(event));
  }

  open() {
    this.dialog.showModal();
    this.input.select();
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ASK_AFTER_MS);
  }

  async ask() {
    this.pending?.abort();
    this.pending = new AbortController();
    const search = this.input.value.trim();
    try {
      const url = `${this.dialog.dataset.find}?${new URLSearchParams({ q: search })}`;
      const { groups } = await fetchJson(url, { signal: this.pending.signal });
      this.show(groups, search);
    } catch (error) {
      if (error.name !== "AbortError") this.say("The site did not answer. Type again to retry.");
    }
  }

  show(groups, search) {
    if (!groups.length) return this.say(search ? "Nothing matches." : "");
    this.results.replaceChildren(...groups.flatMap(({ title, items }) => {
      const heading = Object.assign(document.createElement("h3"), { textContent: title });
      const list = document.createElement("ul");
      list.append(...items.map((item) => this.entry(item)));
      return [heading, list];
    }));
  }

  entry({ name, about, url }) {
    const link = Object.assign(document.createElement("a"), { href: url, textContent: name });
    link.append(Object.assign(document.createElement("span"), { className: "sub", textContent: about }));
    const entry = document.createElement("li");
    entry.append(link);
    return entry;
  }

  say(text) {
    this.results.replaceChildren(Object.assign(document.createElement("p"), { className: "muted text-s", textContent: text }));
  }

  key(event) {
    const links = [...this.results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : this.input).focus();
    else if (event.key === "Enter" && document.activeElement === this.input) links[0]?.click();
    else return;
    event.preventDefault();
  }
}

export function startFind() {
  const dialog = document.getElementById("find");
  if (!dialog) return;
  const find = new Find(dialog);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) find.open();
  });
  for (const button of document.querySelectorAll("[data-action='find']")) button.addEventListener("click", () => find.open());
}
