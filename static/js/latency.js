// What latency costs: the slider chooses one of the limits that the site has priced, and the figures follow.

import { fetchJson } from "./scripts.js";

const CORES = new Intl.NumberFormat("en", { maximumFractionDigits: 3, minimumFractionDigits: 3 });
const MONEY = new Intl.NumberFormat("en", { maximumFractionDigits: 5, minimumFractionDigits: 2 });
const HOLDS_MORE = /[[{:]/; // a list, a percentile or a part of the way: no offer is that

class LatencyOffers {
  constructor(card, prices) {
    this.card = card;
    this.prices = prices;
    this.slider = card.querySelector("input[type='range']");
    this.choice = card.querySelector("input[name='latency']");
    this.slider.addEventListener("input", () => this.show(true));
    this.show(false);
  }

  part(name) {
    return this.card.querySelector(`[data-offer='${name}']`);
  }

  show(isChosen) {
    const offer = this.prices.offers[Number(this.slider.value)];
    if (!offer) return;
    this.part("words").textContent = offer.words;
    this.part("cores").textContent = `${CORES.format(offer.cores)} cores`;
    this.part("batches").textContent = offer.open_queries
      ? `stay open in ${offer.open_queries} of ${offer.queries} ${offer.queries === 1 ? "query" : "queries"}`
      : "micro-batches";
    this.part("pays").textContent =
      `${MONEY.format(offer.pays_per_hour)} ${this.prices.currency} an hour (${CORES.format(offer.pays_cores)} cores)`;
    this.part("unmet").hidden = offer.met;
    this.part("estimated").hidden = !this.prices.estimated;
    this.slider.setAttribute("aria-valuetext", offer.words);
    if (isChosen && this.choice && !HOLDS_MORE.test(this.choice.value)) this.choice.value = offer.words;
  }
}

export async function startLatency() {
  await Promise.all([...document.querySelectorAll("[data-latency]")].map(async (card) => {
    const prices = await fetchJson(card.dataset.latency).catch((error) => {
      if (error.status === 422) return { offers: [] };  // they would take too long
      throw error;
    });
    if (prices.offers.length) new LatencyOffers(card, prices);
  }));
}
