// The document editor: CodeMirror in a shadow root (its styles are then constructed sheets, which the strict
// Content-Security-Policy allows), checked by the site as one types, problems shown where they are.

import * as cm from "../vendor/codemirror/codemirror.js";
import { Columns, placeOf, taskOf } from "./columns.js";
import { confirmed } from "./dialogs.js";
import { toast } from "./toasts.js";

const CHECK_AFTER_MS = 350;
const LIMIT_BYTES = 1024 * 1024;
const SAMPLE_QUESTION = { title: "Replace your text with the sample?", body: "Undo in the editor (Ctrl+Z) brings your text back.", label: "Replace" };

const look = cm.EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" }, // the host shows the ring, around the gutter too
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--accent)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--ink-3)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunken) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--line)", color: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px", fontFamily: "var(--sans)", maxWidth: "min(460px, 80vw)" },
  ".cm-explained": { padding: "6px 10px", fontSize: "13px", lineHeight: "1.45" },
  ".cm-diagnostic": { padding: "6px 10px", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-tooltip-autocomplete ul li": { fontFamily: "var(--mono)", padding: "2px 8px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--ink)" },
  ".cm-completionDetail": { color: "var(--ink-3)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-placeholder": { color: "var(--ink-3)" },
});

const colours = cm.HighlightStyle.define([
  { tag: [cm.tags.propertyName, cm.tags.definition(cm.tags.propertyName)], color: "var(--accent)" },
  { tag: [cm.tags.string], color: "var(--ok)" },
  { tag: [cm.tags.number, cm.tags.bool, cm.tags.null], color: "var(--warn)" },
  { tag: [cm.tags.comment], color: "var(--ink-3)", fontStyle: "italic" },
]);

/** Chromium's own editing gives text that replaces coloured text a style, which the policy refuses: we replace it. */
const typedOverSelection = cm.EditorView.domEventHandlers({
  beforeinput(event, view) {
    const replaces = event.inputType === "insertText" && event.data != null && !event.isComposing;
    if (!replaces || view.state.selection.ranges.every((range) => range.empty)) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

export class Editor {
  constructor(form) {
    this.form = form;
    this.area = form.querySelector("textarea[name='text']");
    this.format = form.querySelector("[name='format']");
    this.list = document.getElementById("problems");
    this.verdict = document.getElementById("verdict");
    this.submit = form.querySelector("button[type='submit']");
    this.language = new cm.Compartment();
    this.saved = this.area.value;
    this.columns = new Columns(form, document.getElementById("columns"));
    this.mount(form.querySelector(".editor-host"));
    this.listen();
    this.switchLanguage();
    this.check();
  }

  mount(host) {
    const root = host.attachShadow({ mode: "open" });
    const inside = document.createElement("div");
    inside.style.height = "100%";
    root.append(inside);
    this.view = new cm.EditorView({
      root, parent: inside,
      state: cm.EditorState.create({ doc: this.area.value, extensions: this.extensions() }),
    });
    this.area.hidden = true;
  }

  extensions() {
    return [
      cm.lineNumbers(), cm.lintGutter(), cm.highlightActiveLine(), cm.highlightActiveLineGutter(), cm.history(),
      cm.drawSelection(), cm.indentOnInput(), cm.bracketMatching(), cm.syntaxHighlighting(colours), look,
      cm.placeholder("Drop a JSON or YAML file here, paste one, or start from a sample."),
      cm.EditorView.contentAttributes.of({ "aria-label": "Dataflow document", "aria-describedby": "verdict", tabindex: "0" }),
      typedOverSelection,
      cm.keymap.of([...cm.lintKeymap, ...cm.searchKeymap, ...cm.historyKeymap, ...cm.defaultKeymap]),
      this.language.of([]), this.columns.extension(), cm.EditorView.lineWrapping,
      cm.EditorView.updateListener.of((update) => {
        if (update.docChanged) this.changed();
        if (update.selectionSet || update.docChanged) this.columns.show(update.state);
      }),
    ];
  }

  listen() {
    this.format.addEventListener("change", () => {
      this.switchLanguage();
      this.check();
    });
    document.getElementById("file")?.addEventListener("change", (event) => this.take(event.target.files[0]));
    for (const sample of document.querySelectorAll("[data-sample]")) {
      sample.addEventListener("click", () => this.sample(sample));
    }
    this.list.addEventListener("click", (event) => {
      const button = event.target.closest("[data-from]");
      if (button) this.jump(Number(button.dataset.from));
    });
    document.getElementById("suggestion")?.addEventListener("click", () => this.set(this.suggestion));
    this.form.addEventListener("submit", () => {
      this.area.value = this.text();
      this.saved = this.text();
    });
    addEventListener("beforeunload", (event) => this.isEdited && event.preventDefault());
    this.acceptDrops(this.form.querySelector(".editor-shell"));
  }

  acceptDrops(shell) {
    const over = (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      shell.dataset.over = "";
    };
    shell.addEventListener("dragenter", over, true);
    shell.addEventListener("dragover", over, true);
    shell.addEventListener("dragleave", (event) => shell.contains(event.relatedTarget) || delete shell.dataset.over);
    shell.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      delete shell.dataset.over;
      this.take(event.dataTransfer.files[0]);
    }, true);
  }

  text() {
    return this.view.state.doc.toString();
  }

  set(text) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: 0 } });
    this.view.focus();
  }

  /** Changes that somebody made in the graph, as one step of the text's history, and checked at once. */
  apply(changes) {
    this.view.dispatch({ changes, userEvent: "input.graph" });
    return this.check();
  }

  /** Undo or redo (`key`: `Mod-z`, `Mod-y`) the last step, wherever it was made. */
  step(key) {
    cm.historyKeymap.find((binding) => binding.key === key).run(this.view);
  }

  async take(file) {
    if (!file) return;
    if (file.size > LIMIT_BYTES) {
      toast(`${file.name} is larger than 1 MiB, the most that a document may be.`, "error");
      return;
    }
    if (/\.json$/i.test(file.name)) this.format.value = "json";
    else if (/\.ya?ml$/i.test(file.name)) this.format.value = "yaml";
    this.switchLanguage();
    this.set(await file.text());
  }

  /** Whether somebody typed or loaded what the editor holds, and has not sent it. */
  get isEdited() {
    return this.text().trim() !== "" && this.text() !== this.saved;
  }

  async sample(button) {
    if (this.isEdited && !(await confirmed(SAMPLE_QUESTION))) return;
    const response = await fetch(button.dataset.sample, { credentials: "same-origin" });
    if (!response.ok) return toast("The sample could not be read; try again.", "error");
    this.format.value = button.dataset.format;
    this.switchLanguage();
    this.set(await response.text());
    this.saved = this.text();
  }

  switchLanguage() {
    const language = this.format.value === "json" ? cm.json() : cm.yaml();
    this.view.dispatch({ effects: this.language.reconfigure(language) });
  }

  changed() {
    this.area.value = this.text();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), CHECK_AFTER_MS);
  }

  async check() {
    clearTimeout(this.timer);
    this.pending?.abort();
    const text = this.text();
    if (!text.trim()) return this.show({ state: "empty", problems: [] });
    this.pending = new AbortController();
    this.say("busy", "Checking…");
    try {
      this.show(await this.ask(text, this.pending.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.say("warn", "The site did not answer. Your text is kept and is checked again as you type.");
    }
  }

  async ask(text, signal) {
    const response = await fetch(this.form.dataset.validate, {
      method: "POST", credentials: "same-origin", signal,
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": this.form.elements.csrfmiddlewaretoken.value },
      body: JSON.stringify({ text, format: this.format.value || null }),
    });
    const answer = await response.json();
    this.columns.take(answer.columns);
    this.columns.show(this.view.state);
    if (answer.problems?.length) return { state: "bad", problems: answer.problems, suggestion: answer.suggestion };
    if (!response.ok) return { state: "bad", problems: [{ code: answer.code, message: answer.message, remedy: answer.remedy, line: null }] };
    return { state: "ok", problems: [], dataflow: answer.dataflow };
  }

  say(state, message) {
    this.verdict.dataset.state = state;
    this.verdict.querySelector("[data-part='chip']").className = `chip chip-${state}`;
    this.verdict.querySelector("[data-part='chip']").textContent = message;
  }

  show({ state, problems, suggestion, dataflow }) {
    const plural = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
    if (state === "empty") this.say("plain", "Nothing to check yet");
    else if (state === "ok") this.say("ok", `Valid: ${dataflow.tasks} task${dataflow.tasks === 1 ? "" : "s"}, ${dataflow.streams} stream${dataflow.streams === 1 ? "" : "s"}`);
    else this.say("bad", plural);
    this.submit.disabled = state !== "ok";
    this.form.dispatchEvent(new CustomEvent("weir:checked", { detail: state }));
    this.suggestion = suggestion;
    document.getElementById("suggestion").hidden = !suggestion;
    const marks = problems.map((problem) => this.mark(problem));
    const about = problems.map((problem, index) => marks[index].placed && taskOf(this.text(), problem, marks[index].from));
    this.form.dispatchEvent(new CustomEvent("weir:problems", { detail: about.filter(Boolean) }));
    this.view.dispatch(cm.setDiagnostics(this.view.state, marks.filter((mark) => mark.placed)));
    this.list.replaceChildren(...problems.map((problem, index) => this.entry(problem, marks[index])));
    document.getElementById("no-problems").hidden = problems.length > 0;
  }

  mark(problem) {
    const doc = this.view.state.doc;
    const placed = problem.line != null && problem.line <= doc.lines;
    const line = doc.line(placed ? problem.line : 1);
    const from = Math.min(line.from + Math.max(0, (problem.column ?? 1) - 1), line.to);
    const word = /^["']?[\w.:-]+["']?/.exec(line.text.slice(from - line.from))?.[0].length ?? 0;
    const to = word ? from + word : line.to;
    return { placed, from, to: Math.max(from, to), severity: "error", message: `${problem.message}\n${problem.remedy ?? ""}`.trim() };
  }

  entry(problem, mark) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "problem";
    if (mark.placed) button.dataset.from = String(mark.from);
    const where = problem.line == null ? problem.path || "document" : `line ${problem.line}, column ${problem.column ?? 1}`;
    for (const [name, text] of [["where", where], ["what", problem.message], ["remedy", problem.remedy]]) {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text ?? "";
      button.append(part);
    }
    item.append(button);
    return item;
  }

  /** Put the cursor at a task, which somebody chose elsewhere and stays with. */
  toTask(id) {
    const position = placeOf(this.text(), id);
    if (position < 0) return;
    this.view.dispatch({ selection: { anchor: position }, effects: cm.EditorView.scrollIntoView(position, { y: "center" }) });
  }

  jump(position) {
    this.view.dispatch({ selection: { anchor: position }, effects: cm.EditorView.scrollIntoView(position, { y: "center" }) });
    this.view.focus();
  }
}

const form = document.querySelector("form[data-editor]");
if (form) window.weirEditor = new Editor(form);
