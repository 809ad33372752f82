// Looks at live sources that do not run: a node reads their newest events for some seconds, while this page asks.
// One look at a time; it ends when another stream is chosen, when its source is changed, or when the page is left.

const EVERY_MS = 400;

export class Looks {
  constructor(card, form, changed) {
    this.address = card.dataset.looks;
    this.form = form;
    this.changed = changed;
    this.button = card.querySelector("[data-part='look']");
    this.seen = new Map();
    this.button.addEventListener("click", () => (this.running ? this.end() : this.begin()));
    addEventListener("pagehide", () => this.end());
  }

  // The stream that is shown now, or null. A look at another one ends.
  turnTo(stream) {
    this.stream = stream?.look ? stream : null;
    if (this.running && this.running.look !== this.stream?.look) this.end();
    this.button.hidden = !this.stream;
    this.label();
  }

  // What was seen of a stream's source, as it is now; undefined where nobody has looked.
  html(stream) {
    return this.seen.get(stream.look);
  }

  forget() {
    this.end();
    this.seen.clear();
  }

  label() {
    const again = this.stream && this.seen.has(this.stream.look);
    this.button.textContent = this.running ? "Stop looking" : again ? "Look again" : "Look at the source";
  }

  async begin() {
    if (!this.stream) return;
    const running = { look: this.stream.look };
    this.running = running;
    this.label();
    const body = new FormData(this.form);
    body.set("task", this.stream.task);
    const begun = await this.fetch(this.address, { method: "POST", body });
    if (this.running !== running) return this.leave(begun?.end);
    running.end = begun?.end;
    await this.follow(running, begun);
    if (this.running !== running) return;
    this.running = null;
    this.label();
  }

  async follow(running, begun) {
    let answer = begun;
    while (answer && this.running === running) {
      this.show(running, answer.html);
      if (answer.over || !begun.address) return;
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      if (this.running === running) answer = await this.fetch(begun.address) ?? answer;
    }
  }

  show(running, html) {
    this.seen.set(running.look, html);
    this.changed();
  }

  end() {
    const running = this.running;
    if (!running) return;
    this.running = null;
    this.seen.delete(running.look);
    this.leave(running.end);
    this.changed();
  }

  leave(address) {
    if (!address) return;
    const body = new FormData();
    body.set("csrfmiddlewaretoken", this.form.elements.csrfmiddlewaretoken.value);
    fetch(address, { method: "POST", body, credentials: "same-origin", keepalive: true }).catch(() => { /* it ends by itself */ });
  }

  // What the site answers, or null where it does not: a page that is away for a moment asks again.
  async fetch(address, options = {}) {
    try {
      const response = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" }, ...options });
      return response.ok ? await response.json() : null;
    } catch {
      return null;
    }
  }
}
