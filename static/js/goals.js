// What goals of adaptation cost and bring: the sliders choose them, the site answers with what would be on.

import { fetchJson } from "./scripts.js";

const AFTER_MS = 200; // sliders pass over many goals
const FIGURE = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
const MONEY = new Intl.NumberFormat("en", { maximumFractionDigits: 4, minimumFractionDigits: 2 });

class Goals {
  constructor(card) {
    this.card = card;
    this.form = card.querySelector("form");
    this.asked = 0;
    this.form.addEventListener("input", () => {
      this.show();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask(), AFTER_MS);
    });
    this.show();
    if (card.dataset.goals) this.ask();
  }

  part(name) {
    return this.card.querySelector(`[data-goal='${name}']`);
  }

  /** The goals as the sliders say them; the least value is worth less than the greatest. */
  show() {
    const { most_per_hour: most, least_per_hour: least } = this.form.elements;
    if (Number(least.value) >= Number(most.value)) least.value = String(Number(most.value) - Number(most.step));
    for (const shown of this.card.querySelectorAll("[data-shown]")) {
      shown.textContent = MONEY.format(Number(this.form.elements[shown.dataset.shown].value));
    }
  }

  async ask() {
    if (!this.card.dataset.goals) return;
    this.asked += 1;
    const number = this.asked;
    const address = new URL(this.card.dataset.goals, location.href);
    for (const name of ["throughput", "most_per_hour", "least_per_hour", "tolerance", "hours"]) {
      address.searchParams.set(name, this.form.elements[name].value);
    }
    try {
      const offer = await fetchJson(address);
      if (number === this.asked) this.fill(offer);
    } catch (error) {
      console.error(error);
      if (number === this.asked) this.part("note").textContent = "What these goals cost is not known now.";
    }
  }

  fill(offer) {
    this.part("note").textContent = offer.why ?? "";
    const on = Object.entries(offer.alternates ?? {}).map(([task, name]) => `${task} by ${name}`);
    this.part("alternates").textContent = on.join(", ") || "as it is";
    this.part("per_hour").textContent = offer.why ? "–" : `${MONEY.format(offer.per_hour)} ${offer.currency} an hour (${FIGURE.format(offer.cores)} cores)`;
    for (const name of ["value", "profit"]) this.part(name).textContent = offer.why ? "–" : FIGURE.format(offer[name]);
    if (offer.why) this.part("alternates").textContent = "–";
  }
}

export function startGoals() {
  for (const card of document.querySelectorAll("#goals")) if (card.querySelector("form")) new Goals(card);
}
