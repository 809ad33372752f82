// The newest events of each output: the table is fetched anew every second until it is paused. Where there is a form for
// a condition, what a search finds shows in their place. A chart of a column is loaded when somebody opens it.

const EVERY_MS = 1000;

export class Output {
  constructor(section) {
    this.section = section;
    this.body = section.querySelector("[data-part='events']");
    this.button = section.querySelector("[data-part='pause']");
    this.paused = false;
    this.button.addEventListener("click", () => this.toggle());
    this.newest = section.dataset.output;
    const form = section.querySelector("form[data-part='search']");
    form?.addEventListener("submit", (event) => {
      event.preventDefault();
      this.search(form);
    });
    form?.addEventListener("reset", () => this.turnTo(this.newest));
    this.poll();
  }

  toggle() {
    this.paused = !this.paused;
    this.button.textContent = this.paused ? "Resume" : "Pause";
    this.button.setAttribute("aria-pressed", String(this.paused));
    this.section.toggleAttribute("data-paused", this.paused);
  }

  turnTo(address) {
    this.section.dataset.output = address;
    if (this.paused) this.toggle();
  }

  async search(form) {
    try {
      const response = await fetch(form.action, { method: "POST", body: new FormData(form), credentials: "same-origin", headers: { Accept: "application/json" } });
      const answer = response.ok ? await response.json() : null;
      this.turnTo(answer ? answer.address : this.newest); // none where there is an error to read
      if (answer?.html) this.show(answer.html);
    } catch {
      // The site is away for a moment; who searches asks again.
    }
  }

  async poll() {
    if (!this.section.isConnected) return;
    const address = this.section.dataset.output;
    if (address && !this.paused && !document.hidden && this.section.offsetParent !== null) {
      try {
        const response = await fetch(address, { credentials: "same-origin", headers: { "HX-Request": "true" } });
        const html = await response.text();
        const isAsked = !this.paused && address === this.section.dataset.output;
        if (response.ok && isAsked) this.show(html);
        else if (response.status === 404 && isAsked && address !== this.newest) this.turnTo(this.newest);
        else if (response.status === 404 && isAsked) this.section.dispatchEvent(new CustomEvent("weir:gone"));
      } catch {
        // The site is away for a moment; what is shown stays, and the connection indicator tells.
      }
    }
    setTimeout(() => this.poll(), EVERY_MS);
  }

  show(html) {
    if (html === this.html) return;
    this.html = html;
    const { scrollLeft = 0, scrollTop = 0 } = this.body.querySelector(".table-wrap") ?? {};
    this.body.innerHTML = html;
    const wrap = this.body.querySelector(".table-wrap");
    if (wrap) Object.assign(wrap, { scrollLeft, scrollTop });
  }
}

const started = new WeakSet();

export function startOutputs() {
  for (const section of document.querySelectorAll("[data-output]")) {
    if (started.has(section)) continue;
    started.add(section);
    new Output(section);
    if (section.querySelector("[data-values]")) import("./values.js").then(({ startValues }) => startValues(section));
  }
}
