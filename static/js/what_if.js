// What if: the slider moves the rate, the site answers with the pairs at that rate, and the last answer stands until the
// next is there. A rate is asked for at once; those that come while an answer is awaited wait for it, and of them the
// newest is asked for next. Pairs that take seconds are asked for when the slider rests. An answer is of all
// pairs: choosing another asks for its curve alone. Only what is shown can be proposed: not while the fields say something
// else than the answer that stands.

import { Plot } from "./plots.js";
import { fetchJson } from "./scripts.js";

const COMPLETE_AFTER_MS = 600;
const PATIENCE_MS = 3000; // an answer that takes longer is given up for a newer question
const SLOW_MS = 300;
const CURVE_AFTER_MS = 150; // arrow keys pass over pairs
const BEYOND = "The table shows another rate. Compare first.";

class WhatIf {
  constructor(card) {
    this.card = card;
    this.slider = card.querySelector("input[type='range']");
    this.number = card.querySelector("input[name='rate']");
    this.headline = card.querySelector("[data-part='headline']");
    this.plot = new Plot(card.querySelector("[data-figure='curve']"));
    this.pairs = document.querySelector("[data-part='pairs']");
    this.shown = document.querySelectorAll("[data-part='rate']");
    this.rates = document.querySelectorAll("[data-rate-of]"); // what each task gets
    this.busy = document.querySelector("[data-part='busy']");
    this.rate = this.given();
    this.chosen = this.pairs.querySelector("tr[data-chosen]")?.dataset.pair ?? "";
    this.routing = card.querySelector("select[name='routing']");
    this.own = card.querySelector("[data-part='own']");
    this.button = document.querySelector("[data-part='propose']");
    this.cannot = document.querySelector("[data-part='cannot']")?.textContent ?? "";
    // That of the answer that is shown; null where there is none.
    this.stands = this.pairs.querySelector("tr[data-pair]") ? this.question() : null;
    this.routing.addEventListener("change", () => this.route());
    this.slider.addEventListener("input", () => this.slide());
    this.number.addEventListener("input", () => this.type());
    this.pairs.addEventListener("change", (event) => event.target.name === "pair" && this.choose(event.target.value));
    this.restSoon();
    this.drawCurve();
  }

  get most() {
    return Number(this.slider.dataset.most);
  }

  slide() {
    const steps = Number(this.slider.dataset.steps);
    const part = Math.max(1, Number(this.slider.value)) / steps;
    this.number.value = String(Number((part * this.most).toPrecision(6)));
    this.at(Number(this.number.value));
  }

  /** The rate in the field; "" where it is left empty, and each of several sources has its own. */
  given() {
    return this.number.value === "" && !this.number.required && !this.number.validity.badInput ? "" : Number(this.number.value);
  }

  type() {
    const rate = this.given();
    if (rate === "") {
      this.at(rate);
      return;
    }
    // Beyond the slider's end the form is sent as it is: the page comes back with another scale.
    if (!(rate > 0) || rate > this.most) {
      this.leave();
      return;
    }
    this.slider.value = String(Math.round((rate / this.most) * Number(this.slider.dataset.steps)));
    this.at(rate);
  }

  at(rate) {
    if (rate === this.rate) return;
    this.rate = rate;
    this.own.hidden = false;
    this.slider.setAttribute("aria-valuetext", rate === "" ? "each source's own rate" : `${rate}/s`);
    this.mark();
    this.agree();
    if (this.isAwaited()) this.isOutdated = true;
    else this.ask();
    this.restSoon();
  }

  /** The field has a rate that is not asked for here: nothing is shown of it. */
  leave() {
    this.rate = null;
    clearTimeout(this.rest);
    this.isOutdated = false;
    this.pending?.controller.abort();
    this.mark();
    this.agree();
  }

  choose(pair) {
    this.chosen = pair;
    this.card.querySelector("input[name='pair']").value = pair;
    this.drawCurve();
    if (this.stands === null) this.askAnew(); // the last question had no answer
    else this.showChosen();
  }

  route() {
    const proposed = document.querySelector("[data-part='propose-routing']");
    if (proposed) proposed.value = this.routing.value;
    this.agree();
    this.drawCurve();
    this.askAnew();
  }

  askAnew() {
    if (this.rate === null) return;
    this.ask();
    this.restSoon();
  }

  /** What the fields ask, whichever pair is chosen: an answer is of all of them. */
  question() {
    return String(new URLSearchParams({ rate: this.rate, routing: this.routing.value }));
  }

  get isShown() {
    return this.stands === this.question();
  }

  /** Whether the pairs of an earlier rate will be there soon; those that take seconds are not waited for. */
  isAwaited() {
    return Boolean(this.pending) && !this.pending.complete && performance.now() - this.pending.since < PATIENCE_MS;
  }

  restSoon() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => (this.isAwaited() ? this.restSoon() : this.ask({ complete: true })), COMPLETE_AFTER_MS);
  }

  /** Ask with what is chosen now; an answer that is still awaited is given up. */
  async ask({ complete = false } = {}) {
    this.pending?.controller.abort();
    const pending = { controller: new AbortController(), complete, since: performance.now() };
    this.pending = pending;
    this.isOutdated = false;
    if (complete) clearTimeout(this.rest);
    const slow = setTimeout(() => (this.busy.hidden = complete), SLOW_MS);
    const question = this.question();
    const query = `${question}&pair=${this.chosen}${complete ? "&complete=1" : ""}`;
    try {
      const answer = await fetch(`${this.card.dataset.whatIf}?${query}`, {
        credentials: "same-origin", headers: { Accept: "application/json" }, signal: pending.controller.signal,
      });
      if (answer.redirected) { // logged out: whoever logs in again comes back to what the fields said
        location.search = this.addressAt(this.rate);
        return;
      }
      const found = await answer.json();
      if (answer.ok) this.show(found, question);
      else this.fail(`${found.message.replace(/\.$/, "")}. ${found.remedy ?? ""}`, complete);
    } catch (error) {
      if (error.name !== "AbortError") this.fail("The site did not answer. Move the slider to ask again.", complete);
    } finally {
      clearTimeout(slow);
      if (this.pending === pending) this.answered();
    }
  }

  answered() {
    this.pending = null;
    this.busy.hidden = true;
    if (this.isOutdated) this.ask();
  }

  show(found, question) {
    const focused = this.pairs.contains(document.activeElement) ? document.activeElement.value : null;
    this.pairs.innerHTML = found.pairs;
    this.chosen ||= found.chosen;
    for (const place of this.shown) place.textContent = found.shown;
    for (const place of this.rates) place.textContent = found.rates[place.dataset.rateOf] ?? place.textContent;
    const proposed = document.querySelector("[data-part='propose-rate']");
    if (proposed) proposed.value = found.rate;
    this.stands = question;
    this.card.dataset.at = found.rate;
    this.showChosen();
    if (focused) this.radio(focused)?.focus();
  }

  /** The chosen pair, of the answer that stands: its row, its figures, the address, and whether it can be proposed. */
  showChosen() {
    for (const row of this.pairs.querySelectorAll("tr[data-pair]")) row.toggleAttribute("data-chosen", row.dataset.pair === this.chosen);
    const radio = this.radio(this.chosen);
    radio.checked = true;
    this.cannot = radio.dataset.cannot;
    this.headline.innerHTML = this.pairs.querySelector(`template[data-headline='${CSS.escape(this.chosen)}']`).innerHTML;
    this.agree();
    this.own.search = this.addressAt("");
    if (!this.isShown) return; // the answer that is awaited brings its address
    history.replaceState(null, "", `?${this.addressAt(this.card.dataset.at)}`);
  }

  /** The page's query for a rate, with what is chosen; without one where each source has its own. */
  addressAt(rate) {
    return String(new URLSearchParams({
      ...(rate !== "" && { rate }), ...(this.chosen && { pair: this.chosen }), routing: this.routing.value }));
  }

  radio(pair) {
    return this.pairs.querySelector(`input[value='${CSS.escape(pair)}']`);
  }

  /** Let what is shown be proposed as far as it is what the fields ask; why it cannot is said, but not of a moment. */
  agree() {
    const cannot = this.rate === null ? BEYOND : this.cannot;
    this.pairs.toggleAttribute("data-stale", this.stands === null || this.rate === null);
    if (!this.button) return;
    this.button.disabled = !this.isShown || Boolean(cannot);
    document.querySelector("[data-part='cannot']").textContent = cannot;
    document.querySelector("[data-part='can']").hidden = Boolean(cannot);
  }

  fail(message, complete) {
    if (complete && this.isShown) {
      this.withoutPending(message);
      return;
    }
    this.stands = null;
    this.cannot = "There is no schedule to propose.";
    this.agree();
    this.headline.replaceChildren(noteOf(message));
  }

  /** The pairs that take seconds have no answer: those that were found at once stand. */
  withoutPending(message) {
    for (const cell of this.pairs.querySelectorAll("[data-part='pending']")) {
      const { pair } = cell.closest("tr").dataset;
      cell.textContent = `Not computed. ${message}`;
      this.radio(pair).dataset.cannot = "This schedule was not computed. Choose another pair, or try again.";
      this.pairs.querySelector(`template[data-headline='${pair}']`).content.replaceChildren(noteOf(message));
    }
    this.showChosen();
  }

  async drawCurve() {
    this.drawing?.abort(); // an answer that comes late is another pair's
    const { signal } = (this.drawing = new AbortController());
    this.plot.shell.toggleAttribute("data-stale", true);
    if (this.figure) await new Promise((resolve) => setTimeout(resolve, CURVE_AFTER_MS));
    if (signal.aborted) return;
    const query = new URLSearchParams({ most: this.most, pair: this.chosen, routing: this.routing.value });
    try {
      this.figure = (await fetchJson(`${this.card.dataset.curve}?${query}`, { signal })).curve;
      this.plot.shell.toggleAttribute("data-stale", false);
      this.mark();
    } catch (error) {
      if (!signal.aborted) this.noCurve(error);
    }
  }

  noCurve(error) {
    console.error(error);
    this.figure = null;
    this.plot.shell.toggleAttribute("data-stale", false);
    this.plot.fail("There is no curve: the site did not answer, or it cannot be drawn here. Compare to try again.");
  }

  /** The rate as a line across the curve; drawn at most once a frame. */
  mark() {
    if (!this.figure || this.marking) return;
    this.marking = true;
    requestAnimationFrame(() => {
      this.marking = false;
      if (!this.figure) return;
      const line = { type: "line", x0: this.rate, x1: this.rate, y0: 0, y1: 1, yref: "paper" };
      const shapes = this.rate ? [line] : [];
      this.plot.draw({ ...this.figure, layout: { ...this.figure.layout, shapes } }).catch((error) => this.noCurve(error));
    });
  }
}

function noteOf(message) {
  const note = document.createElement("p");
  note.className = "what-if-none text-bad";
  note.textContent = message;
  return note;
}

export function startWhatIf() {
  const card = document.querySelector("[data-what-if]");
  if (card) window.weirWhatIf = new WhatIf(card);
}
