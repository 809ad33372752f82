// The newest events of the document's streams, one at a time: of the task that the cursor is in, or of one that is chosen.
// What runs is fetched anew every second; what does not is shown as the site answered when the text was checked, or as a
// look at the source found it.

import { Looks } from "./looks.js";
import { Output } from "./outputs.js";

const READING = "<div class='card-body muted text-s' aria-busy='true'>Reading the newest events…</div>";

class Streams {
  constructor(card, form) {
    this.card = card;
    this.form = form;
    this.choice = card.querySelector("select");
    this.page = card.querySelector("[data-part='page']");
    this.pause = card.querySelector("[data-part='pause']");
    this.byTask = new Map();
    this.output = new Output(card);
    this.looks = new Looks(card, form, () => this.select(this.chosen));
    form.addEventListener("weir:checked", (event) => this.checked(event.detail));
    form.addEventListener("weir:task", (event) => this.follow(event.detail));
    form.addEventListener("change", (event) => event.target.name === "team" && this.changeTeam());
    this.choice.addEventListener("change", () => this.select(this.choice.value));
    card.addEventListener("weir:gone", () => this.ask());
  }

  checked(state) {
    this.valid = state === "ok";
    this.pending?.abort();
    if (this.valid) this.ask();
    else if (state === "empty") this.hide();
    else this.card.toggleAttribute("data-stale", true);
  }

  changeTeam() {
    this.looks.forget();
    if (this.valid) this.ask();
  }

  async ask() {
    this.pending?.abort();
    const pending = new AbortController();
    this.pending = pending;
    this.card.toggleAttribute("data-stale", true);
    try {
      const response = await fetch(this.card.dataset.streams, {
        method: "POST", credentials: "same-origin", signal: pending.signal, body: new FormData(this.form),
        headers: { Accept: "application/json" },
      });
      if (response.ok) this.take((await response.json()).streams);
    } catch { /* the last answer stays, faded; the text is checked again as one types */ }
  }

  take(streams) {
    this.byTask = new Map(streams.map((stream) => [stream.task, stream]));
    this.choice.replaceChildren(...streams.map((stream) => new Option(`${stream.task}: ${stream.words}`, stream.task)));
    this.card.toggleAttribute("data-stale", false);
    this.card.hidden = streams.length === 0;
    const chosen = [this.chosen, streams.find((stream) => stream.address)?.task, streams[0]?.task];
    this.select(chosen.find((task) => this.byTask.has(task)));
  }

  follow(task) {
    this.chosen = task;
    if (this.byTask.has(task)) this.select(task);
  }

  select(task) {
    const stream = this.byTask.get(task);
    if (!stream) return;
    this.chosen = task;
    this.choice.value = task;
    this.page.hidden = !stream.page;
    this.page.href = stream.page;
    this.pause.hidden = !stream.address;
    this.card.dataset.state = stream.state;
    this.looks.turnTo(stream);
    if (stream.address && this.card.dataset.output === stream.address) return;
    this.card.dataset.output = stream.address;
    this.output.show(stream.address ? READING : this.looks.html(stream) ?? stream.html);
  }

  hide() {
    this.looks.turnTo(null);
    this.card.hidden = true;
    this.card.dataset.output = "";
    this.byTask = new Map();
  }
}

const [card, form] = [document.getElementById("streams"), document.querySelector("form[data-editor]")];
if (card && form) window.weirStreams = new Streams(card, form);
