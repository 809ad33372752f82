// The values of an output as a chart: a column of its newest events, with a line for each value of another. The choice is
// in the address, by the output's task.

import { Chart } from "./charts.js";
import { fetchJson } from "./scripts.js";

const EVERY_MS = 2000;
const NONE = { name: "", kind: "no column" };

class Values {
  constructor(section, panel) {
    this.section = section;
    this.panel = panel;
    this.task = panel.dataset.task;
    this.chart = new Chart(panel, panel);
    this.choices = { value: panel.querySelector("[data-part='value']"), by: panel.querySelector("[data-part='by']") };
    this.note = panel.querySelector("[data-part='note']");
    this.asked = 0;
    const params = new URLSearchParams(location.search);
    this.chosen = { value: params.get(`value.${this.task}`) ?? "", by: params.get(`by.${this.task}`) ?? "" };
    panel.open = this.chosen.value !== "";
    for (const [name, select] of Object.entries(this.choices)) {
      select.addEventListener("change", () => {
        this.chosen[name] = select.value;
        this.keep();
        this.refresh();
      });
    }
    panel.addEventListener("toggle", () => {
      this.keep();
      this.refresh();
    });
    for (const event of ["visibilitychange", "weir:tab"]) document.addEventListener(event, () => this.refresh());
    this.refresh();
  }

  keep() {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(this.chosen)) {
      if (value && this.panel.open) address.searchParams.set(`${name}.${this.task}`, value);
      else address.searchParams.delete(`${name}.${this.task}`);
    }
    history.replaceState(null, "", address);
  }

  async refresh() {
    clearTimeout(this.timer);
    if (!this.panel.open || document.hidden || this.panel.offsetParent === null || !this.panel.isConnected) return;
    this.asked += 1;
    const turn = this.asked;
    if (!("paused" in this.section.dataset)) {
      try {
        const figure = await fetchJson(`${this.panel.dataset.values}?${new URLSearchParams(this.chosen)}`);
        if (turn !== this.asked) return; // another column was chosen meanwhile
        this.show(figure);
        await this.chart.draw(figure);
      } catch (error) {
        if (turn !== this.asked) return;
        console.error(error);
        if (!this.chart.plot.figure) this.chart.plot.fail("No figure came from the site. Trying again.");
      }
    }
    this.timer = setTimeout(() => this.refresh(), EVERY_MS);
  }

  show(figure) {
    const isFirst = this.chosen.value === "" && figure.value !== "";
    this.chosen.value = figure.value;
    if (isFirst) this.keep();
    offer(this.choices.value, figure.columns, figure.value);
    offer(this.choices.by, [NONE, ...figure.columns.filter(({ name }) => name !== figure.value)], figure.by);
    if (this.note.textContent !== figure.note) this.note.textContent = figure.note;
  }
}

/** The columns to choose from. One that was chosen stays where no event has it now. */
function offer(select, columns, chosen) {
  const all = columns.some(({ name }) => name === chosen) ? columns : [...columns, { name: chosen, kind: "not in these events" }];
  const key = all.map(({ name, kind }) => `${name}\n${kind}`).join("\n\n");
  if (select.dataset.key !== key && document.activeElement !== select) {
    select.dataset.key = key;
    select.replaceChildren(...all.map(({ name, kind }) => new Option(name ? `${name} (${kind})` : kind, name)));
  }
  if (document.activeElement !== select) select.value = chosen;
}

export function startValues(section) {
  for (const panel of section.querySelectorAll("[data-values]")) new Values(section, panel);
}
