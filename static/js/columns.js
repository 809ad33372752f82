// What the editor knows of the text: columns, task types, keys, ports and the words of guards; completed where they belong, and
// explained where one points. The site says with each check which columns every task reads and gives; while a text cannot
// be read, the last answer stands.

import * as cm from "../vendor/codemirror/codemirror.js";

const ID = /["']?\bid["']?\s*:\s*["']?([\w.-]+)/g;
const TYPE = /["']?\btype["']?\s*:\s*["']?(\w+)/;
const KEY = /["']?([A-Za-z_]\w*)["']?\s*:/g;
const WAY = /["']?\bname["']?\s*:/g; // an alternate begins with its name
const WAY_KEYS = ["name", "type", "config", "tasks", "streams", "value", "guard"];
const AT_KEY = /(?:^\s*(?:-\s+)?|[{,]\s*)["']?(\w*)$/; // before it a key may be written
const LIST = /["']?\b(tasks|streams|alternates|rates|latency)["']?\s*:/g;
const ENTRY = /\{|(?:^|\n)\s*-\s/g; // where an entry of a list begins, or a mapping
const PORT_KEYS = ["input", "output"];
const FARTHEST = 4000; // characters behind the cursor in which a task's type may stand

/** The task that a place in the text is in: its id, its type, the parameter that was begun last before it, and of an
 * alternate the `key` of it that was. */
export function taskAt(text, position, parametersOf) {
  const before = text.slice(0, position);
  const started = [...before.matchAll(ID)].at(-1);
  if (!started) return null;
  const following = text.slice(position, position + FARTHEST);
  const next = following.search(/["']?\bid["']?\s*:/);
  const own = before.slice(started.index);
  const way = wayAt(own);
  const from = way?.index ?? 0;
  const rest = next < 0 ? following : following.slice(0, next);
  const until = way ? rest.search(/["']?\bname["']?\s*:/) : -1;
  const segment = own.slice(from) + (until < 0 ? rest : rest.slice(0, until));
  const type = TYPE.exec(segment)?.[1] ?? "";
  const known = parametersOf(type);
  const keys = [...own.slice(from).matchAll(KEY)].map((match) => match[1]);
  const parameter = [...keys].reverse().map((name) => known.find((one) => one.name === name)).find(Boolean) ?? null;
  const key = way && [...keys].reverse().find((name) => WAY_KEYS.includes(name));
  return { id: started[1], type, parameter, ...(way && { key, written: keys }) };
}

/** The stream that a place in the text is in: its keys, the one that was begun last, and whether it is of a path; null
 * outside of streams. */
export function streamAt(text, position) {
  const before = text.slice(0, position);
  const lists = [...before.matchAll(LIST)].map((match) => match[1]);
  const begun = [...before.matchAll(ENTRY)].at(-1);
  if (lists.at(-1) !== "streams" || !begun || /\bsplit["']?\s*:\s*$/.test(before.slice(0, begun.index))) return null;
  const own = before.slice(begun.index);
  const following = text.slice(position, position + FARTHEST);
  const end = following.search(/\}|\n\s*-|\n\S/);
  const keys = [...own.matchAll(KEY)].map((match) => match[1]);
  const later = [...following.slice(0, end < 0 ? undefined : end).matchAll(KEY)].map((match) => match[1]);
  return { key: keys.at(-1), written: [...keys, ...later], isOfPath: lists.includes("alternates") && isWithin(before) };
}

/** Whether the last streams of a text stand deeper than the first tasks. */
function isWithin(text) {
  const depth = (match) => match[0].search(/\S/);
  const listed = [...text.matchAll(/^[^\n:]*\b(?:tasks|streams)["']?\s*:/gm)];
  return listed.length > 0 && depth(listed.at(-1)) > depth(listed[0]);
}

/** The task that a problem is about, where it stands in the text; nothing for one of a stream, or of the whole. */
export function taskOf(text, problem, position) {
  if (problem.task_id) return problem.task_id;
  if (!/^\/tasks\/\d/.test(problem.path ?? "")) return undefined;
  const begun = /^\{?\s*["']?id["']?\s*:\s*["']?[\w.-]+/.exec(text.slice(position, position + 200)); // the task's own id
  return taskAt(text, position + (begun?.[0].length ?? 0), () => [])?.id;
}

/** Behind the id of a task in the text; of a task that Weir made of a loop, a split or a port, the id of what it is at. -1 without. */
export function placeOf(text, id) {
  const begun = [...text.matchAll(ID)].filter(({ 1: written }) => id === written || id.startsWith(`${written}.`));
  const longest = Math.max(...begun.map((match) => match[1].length));
  const found = begun.find((match) => match[1].length === longest);
  return found ? found.index + found[0].length : -1;
}

/** Where the alternate begins that the end of a task's text is in; null outside of alternates. */
function wayAt(own) {
  const listed = /["']?\balternates["']?\s*:/.exec(own);
  if (!listed) return null;
  const ways = [...own.matchAll(WAY)].filter((match) => match.index > listed.index);
  return { index: ways.at(-1)?.index ?? listed.index + listed[0].length };
}

export class Columns {
  constructor(form, panel) {
    this.byTask = {};
    this.types = new Map(); // by name: parameters
    this.described = new Map(); // by name: all that the site says of a type
    this.keys = { task: {}, alternate: {}, stream: {} }; // by name: what the document's schema says
    this.guards = JSON.parse(form.dataset.guards);
    this.panel = panel;
    this.form = form;
    this.load();
  }

  async load() {
    const read = async (address) => {
      const response = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } });
      return response.ok ? response.json() : null;
    };
    try {
      const [types, schema] = await Promise.all([read(this.form.dataset.types), read(this.form.dataset.schema)]);
      for (const type of types ?? []) {
        this.types.set(type.name, type.parameters);
        this.described.set(type.name, type);
      }
      for (const part of Object.keys(this.keys)) {
        const known = Object.entries(schema?.$defs[part].properties ?? {});
        this.keys[part] = Object.fromEntries(known.map(
          ([name, of]) => [name, { ...schema.$defs[of.$ref?.replace("#/$defs/", "")], ...of }]));
      }
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
    return [
      cm.autocompletion({ override: [(context) => this.complete(context)], icons: false }),
      cm.hoverTooltip((view, position) => this.explain(view.state, position)),
    ];
  }

  complete(context) {
    const place = this.at(context.state, context.pos);
    const line = context.state.doc.lineAt(context.pos);
    const before = context.state.sliceDoc(line.from, context.pos);
    const stream = streamAt(context.state.doc.toString(), context.pos);
    if (stream) return this.completed(context, AT_KEY.test(before) ? this.keyNames("stream", stream.written) : this.ends(stream, context.state.doc.toString()));
    if (place?.key === "guard" && !AT_KEY.test(before)) return this.completed(context, this.guardWords());
    if (/["']?\btype["']?\s*:\s*["']?\w*$/.test(before)) return this.completed(context, this.typeNames(Boolean(place?.key)));
    const reads = place && this.byTask[place.id]?.reads;
    if (place?.parameter?.column && reads) {
      return this.completed(context, reads.columns.map((column) => ({
        label: column.name, detail: column.type ?? "", boost: column.name.startsWith("_") ? -1 : 0 })));
    }
    return place && AT_KEY.test(before) ? this.completed(context, this.keyNames(place.written ? "alternate" : "task", place.written)) : null;
  }

  /** The options that go on with the word before the cursor; nothing where there is none and nobody asked. */
  completed(context, options) {
    const word = context.matchBefore(/\w*/);
    if (word.from === word.to && !context.explicit) return null;
    return { from: word.from, options, validFor: /^\w*$/ };
  }

  guardWords() {
    const figures = Object.entries(this.guards.figures).map(([label, doc]) => ({ label, detail: doc, boost: 1 }));
    const words = Object.entries(this.guards.words).map(([label, word]) => ({ label, detail: word.meaning, apply: word.example }));
    return [...figures, ...words];
  }

  /** Types of tasks; for an alternate those that read a stream and give one. */
  typeNames(isWay) {
    return [...this.described.values()].filter((type) => !isWay || type.kind === "transform").map(
      (type) => ({ label: type.name, detail: type.family, info: type.doc }));
  }

  /** What may stand at the key of a stream that was begun: ids of tasks, or the ports that other streams name there. */
  ends({ key, isOfPath }, text) {
    const named = PORT_KEYS.includes(key) ? [...text.matchAll(new RegExp(`["']?\\b${key}["']?\\s*:\\s*["']?([\\w.-]+)`, "g"))]
      : ["from", "to"].includes(key) ? [...text.matchAll(ID)] : [];
    const end = isOfPath ? { from: ["input"], to: ["output"] }[key] ?? [] : [];
    return [...new Set([...end, ...named.map((match) => match[1])])].map((label) => ({ label }));
  }

  /** Keys of a task, an alternate or a stream that are not there yet. */
  keyNames(part, written) {
    const known = this.keys[part];
    return Object.keys(known).filter((name) => !written?.includes(name)).map(
      (name) => ({ label: name, apply: `${name}: `, info: known[name].description }));
  }

  /** What the word is that one points at; null where that is not known. */
  explain(state, position) {
    const line = state.doc.lineAt(position);
    const found = [...line.text.matchAll(/\w+/g)].find(
      ({ index, 0: word }) => line.from + index <= position && position <= line.from + index + word.length);
    if (!found) return null;
    const [from, to] = [line.from + found.index, line.from + found.index + found[0].length];
    const place = this.at(state, to);
    const isKey = /^["']?\s*:/.test(line.text.slice(found.index + found[0].length));
    const part = streamAt(state.doc.toString(), to) ? "stream" : place?.written ? "alternate" : "task";
    const text = isKey ? this.keys[part][found[0]]?.description : this.meaning(found[0], place);
    if (!text) return null;
    return { pos: from, end: to, create: () => ({ dom: Object.assign(document.createElement("div"), { className: "cm-explained", textContent: text }) }) };
  }

  meaning(word, place) {
    if (place?.key === "guard") {
      const known = this.guards.words[word];
      return known ? `${known.example}: ${known.meaning}` : this.guards.figures[word];
    }
    return place?.type === word ? this.described.get(word)?.doc : null;
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
