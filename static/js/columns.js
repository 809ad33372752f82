// Columns in the editor: completed where a parameter names them, and shown for the task that the cursor is in. The site
// says with each check which columns every task reads and gives; while a text cannot be read, the last answer stands.

import * as cm from "../vendor/codemirror/codemirror.js";

const ID = /["']?\bid["']?\s*:\s*["']?([\w.-]+)/g;
const TYPE = /["']?\btype["']?\s*:\s*["']?(\w+)/;
const KEY = /["']?([A-Za-z_]\w*)["']?\s*:/g;
const FARTHEST = 4000; // characters behind the cursor in which a task's type may stand

/** The task that a place in the text is in: its id, its type, and the parameter that was begun last before it. */
export function taskAt(text, position, parametersOf) {
  const before = text.slice(0, position);
  const started = [...before.matchAll(ID)].at(-1);
  if (!started) return null;
  const following = text.slice(position, position + FARTHEST);
  const next = following.search(/["']?\bid["']?\s*:/);
  const segment = before.slice(started.index) + (next < 0 ? following : following.slice(0, next));
  const type = TYPE.exec(segment)?.[1] ?? "";
  const known = parametersOf(type);
  const keys = [...before.slice(started.index).matchAll(KEY)].map((match) => match[1]);
  const parameter = keys.reverse().map((name) => known.find((one) => one.name === name)).find(Boolean) ?? null;
  return { id: started[1], type, parameter };
}

export class Columns {
  constructor(form, panel) {
    this.byTask = {};
    this.types = new Map();
    this.panel = panel;
    this.form = form;
    this.load(form.dataset.types);
  }

  async load(address) {
    try {
      const response = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (response.ok) for (const type of await response.json()) this.types.set(type.name, type.parameters);
    } catch { /* the editor works without */ }
  }

  /** What the site said about a text; an answer without columns is of a text that could not be read. */
  take(byTask) {
    if (byTask && Object.keys(byTask).length) this.byTask = byTask;
  }

  at(state, position) {
    return taskAt(state.doc.toString(), position, (type) => this.types.get(type) ?? []);
  }

  extension() {
    return cm.autocompletion({ override: [(context) => this.complete(context)], icons: false });
  }

  complete(context) {
    const place = this.at(context.state, context.pos);
    const reads = place && this.byTask[place.id]?.reads;
    if (!place?.parameter?.column || !reads) return null;
    const word = context.matchBefore(/\w*/);
    if (word.from === word.to && !context.explicit) return null;
    return {
      from: word.from,
      options: reads.columns.map((column) => ({ label: column.name, detail: column.type ?? "", boost: column.name.startsWith("_") ? -1 : 0 })),
      validFor: /^\w*$/,
    };
  }

  /** Show the columns of the task that the cursor is in. */
  show(state) {
    const place = this.at(state, state.selection.main.head);
    const columns = place && this.byTask[place.id];
    if (columns && place.id !== this.task) {
      this.task = place.id;
      this.form.dispatchEvent(new CustomEvent("weir:task", { detail: place.id }));
    }
    this.panel.hidden = !columns;
    if (!columns) return;
    this.panel.querySelector("[data-part='task']").textContent = place.id;
    for (const side of ["reads", "gives"]) {
      const { columns: listed, complete } = columns[side];
      const entries = listed.map((column) => this.entry(column.name, column.type));
      if (!complete) entries.push(this.entry("…", "and what is not declared"));
      this.panel.querySelector(`[data-part='${side}']`).replaceChildren(...entries);
    }
  }

  entry(name, type) {
    const item = document.createElement("li");
    const code = document.createElement("code");
    code.textContent = name;
    const kind = document.createElement("span");
    kind.className = "muted";
    kind.textContent = ` ${type ?? "not known"}`;
    item.append(code, kind);
    return item;
  }
}
