// Edits of the document from its graph. The site answers with a form, then with changes of the text, which the editor
// takes as one step of its history. On the graph: Enter configures the chosen task, Insert adds one after it, Delete
// removes it, Ctrl+Z and Ctrl+Y go through the history of the text. Who drags from a task's outlet to another joins them.

import { GraphJoining } from "./graph_joining.js";
import { toast } from "./toasts.js";

const AWAY = "The site did not answer. Nothing was changed: try again.";

class GraphEdits {
  constructor(dialog, form, panel) {
    this.dialog = dialog;
    this.form = form;
    this.panel = panel;
    panel.addEventListener("click", (event) => {
      const button = event.target.closest("[data-edit]");
      if (button) this.begin(button.dataset.edit, button.dataset.of ?? this.chosen?.id ?? "");
    });
    panel.addEventListener("keydown", (event) => this.key(event), true); // before the graph's own keys
    new GraphJoining(panel.querySelector(".graph-stage"), (task, target) => this.send("join", null, { task, target, apply: "1" }));
    dialog.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(event.target.dataset.graphForm, event.target, { apply: "1" }, event.submitter);
    });
    dialog.addEventListener("change", (event) => {
      if ("refetch" in event.target.dataset) this.send("add", event.target.form, { id: "" });
    });
    dialog.addEventListener("click", (event) => event.target.closest("[data-graph-cancel]") && dialog.close());
  }

  /** The task that is chosen in the graph. */
  get chosen() {
    const graph = window.weirGraphs?.[0];
    const node = graph?.cy?.nodes(":selected").first();
    return node?.nonempty() ? graph.byId.get(node.data("of") ?? node.id()) : null;
  }

  key(event) {
    if (event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      const key = event.key.toLowerCase();
      if (!["z", "y"].includes(key)) return;
      window.weirEditor.step(key === "y" || event.shiftKey ? "Mod-y" : "Mod-z");
    } else {
      const edit = { Enter: "configure", Insert: "add", Delete: "remove" }[event.key];
      const task = event.target.matches(".graph-canvas") && this.chosen; // on a button Enter presses it
      if (!edit || !task || (edit === "configure" && task.ways)) return; // alternates open by Enter
      this.begin(edit, task.id);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** What has no form is made at once. */
  begin(edit, task) {
    return this.send(edit, null, { task, ...(edit === "remove" && { apply: "1" }) });
  }

  async send(edit, filled, more, submitter = null) {
    const body = new FormData(this.form);
    for (const [name, value] of filled ? new FormData(filled, submitter) : []) body.append(name, value);
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    const sent = window.weirEditor.text();
    this.pending?.abort();
    this.pending = new AbortController();
    try {
      const response = await fetch(this.dialog.dataset.edits.replace("EDIT", edit), {
        method: "POST", credentials: "same-origin", signal: this.pending.signal, body, headers: { Accept: "application/json" } });
      const answer = await response.json();
      if (answer.html) this.show(answer.html, Boolean(filled) && response.ok);
      else if (!response.ok) toast(`${answer.message} ${answer.remedy ?? ""}`.trim(), "error");
      else if (sent === window.weirEditor.text()) this.apply(answer);
      else toast("The text was changed meanwhile: edit the graph again.", "error");
    } catch (error) {
      if (error.name !== "AbortError") toast(AWAY, "error");
    }
  }

  /** A form; one that comes again goes on where one was. */
  show(html, again) {
    this.dialog.innerHTML = html;
    if (!this.dialog.open) this.dialog.showModal();
    const places = ["[aria-invalid]", ...(again ? ["#g-id"] : []), "[autofocus]", ".dialog-body [name]:not([type='hidden'])", "[data-graph-apply]"];
    const place = places.map((selector) => this.dialog.querySelector(selector)).find(Boolean);
    place?.focus();
    if (place?.matches("input[type='text']")) place.select();
  }

  apply(answer) {
    this.dialog.close();
    window.weirEditor.apply(answer.changes);
    if (answer.task) window.weirEditor.toTask(answer.task);
    this.form.dispatchEvent(new CustomEvent("weir:edited", { detail: { graph: answer.graph, task: answer.task } }));
    if (answer.told) toast(answer.told);
  }
}

const [dialog, form] = [document.getElementById("graph-edit"), document.querySelector("form[data-editor]")];
if (dialog && form) window.weirGraphEdits = new GraphEdits(dialog, form, document.getElementById("preview-graph"));
