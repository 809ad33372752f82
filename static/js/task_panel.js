// The graph of a dataflow with a panel beside it: what the site knows of the task that was chosen. The choice stands in
// the address, so that it can be linked to; Escape, or the panel's button, closes it.

import { GraphPanel } from "./graph_page.js";
import { startOutputs } from "./outputs.js";

export class DataflowPanel extends GraphPanel {
  constructor(panel) {
    super(panel);
    this.card.removeAttribute("aria-live"); // all of it would be read out, each time
    this.card.addEventListener("keydown", (event) => event.key === "Escape" && this.graph.cy.nodes().unselect());
  }

  async load() {
    await super.load();
    this.choose();
  }

  /** The task that was chosen, here or by the address. */
  choose() {
    const named = this.selected?.id ?? new URLSearchParams(location.search).get("task");
    if (this.graph.cy && this.graph.byId.has(named)) this.graph.select(named);
    else if (this.graph.waits) document.addEventListener("weir:tab", () => setTimeout(() => this.choose(), 100), { once: true });
  }

  live(state) {
    super.live(state);
    const shape = this.selected && JSON.stringify(["state", "error", "shared_with", "on", "fragment", "slot"].map((name) => state.tasks?.[this.selected.id]?.[name]));
    if (this.selected && this.shape !== undefined && this.shape !== shape) this.read(this.selected);
    this.shape = shape;
  }

  /** The same tasks as rows, which are asked for when they are looked at: of many tasks they are much. */
  async table(button) {
    super.table(button);
    const rows = this.panel.querySelector(".graph-table");
    if (rows.hidden) return;
    try {
      rows.innerHTML = await this.ask("");
    } catch (error) {
      console.error(error);
      rows.textContent = "No table came from the site. Close it and open it again.";
    }
  }

  async ask(task) {
    const response = await fetch(this.panel.dataset.tasks + encodeURIComponent(task), { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (!response.ok) throw new Error(`${response.status} for ${response.url}`);
    return response.text();
  }

  show(task) {
    const other = task?.id !== this.selected?.id;
    this.selected = task;
    if (!other) {
      this.ways(); // it may have been opened or closed
      return;
    }
    this.shape = undefined;
    const address = new URL(location.href);
    if (task) address.searchParams.set("task", task.id);
    else address.searchParams.delete("task");
    history.replaceState(history.state, "", address);
    if (task) this.read(task);
    else this.close();
  }

  async read(task) {
    let text;
    try {
      text = await this.ask(task.id);
    } catch (error) {
      console.error(error);
      text = "No details came from the site. Choose the task again.";
    }
    if (this.selected?.id !== task.id) return;
    const open = new Set([...this.card.querySelectorAll("details[open]")].map((each) => each.dataset.part));
    this.card.innerHTML = text;
    for (const each of this.card.querySelectorAll("details")) if (open.has(each.dataset.part)) each.open = true;
    this.card.hidden = false;
    this.graph.cy.resize();
    this.graph.reveal(this.graph.cy.getElementById(task.id)); // beside the panel
    this.ways();
    startOutputs();
  }

  /** Alternates are drawn inside the task, in the graph. */
  ways() {
    const button = this.card.querySelector("[data-graph-do='ways']");
    if (button && this.selected) button.textContent = this.graph.byId.get(this.selected.id)?.open ? "Close its alternates" : "Open its alternates";
  }

  close() {
    const within = this.card.contains(document.activeElement);
    this.card.hidden = true;
    this.card.replaceChildren();
    if (within) this.graph.canvas.focus();
  }
}
