// Beside the editor: what the document would reuse if it were submitted now. The site plans it each time that the text
// is valid, or another team is chosen; what is shown meanwhile is the last answer, faded, beside the graph as the text has
// it. Text and graph have one choice: the task that the cursor is in is chosen in the graph, and the cursor goes to the
// task that is chosen there.

const SLOW_MS = 1000;

/** The graph and what draws it, which is as large as the editor: loaded with the first answer, not with the page. */
async function previewGraph(panel) {
  const { GraphPanel } = await import("./graph_page.js");

  class PreviewGraph extends GraphPanel {
    async fetch() {
      return null; // drawn when an answer is there
    }

    async draw(graph) {
      const sameTasks = graph.tasks.map((task) => task.id).join() === this.data?.tasks.map((task) => task.id).join();
      const open = this.card.hidden ? null : this.selected?.id;
      this.data = graph;
      this.graph.kept = sameTasks; // of other tasks: show them whole
      await this.graph.draw(graph);
      this.graph.blame(this.blamed ?? []);
      if (this.graph.byId?.has(open)) this.choose(open, { moves: !sameTasks });
      else {
        this.card.hidden = true; // it was of the former graph
        this.follow(window.weirEditor?.columns.task, { moves: !sameTasks });
      }
    }

    /** Draw what the text says, unless it is what is drawn: that also says what runs already. */
    drawWritten(graph) {
      if (!this.data || shape(this.data) !== shape(graph)) this.draw(graph);
    }

    blame(ids) {
      this.blamed = ids;
      this.graph.blame(ids);
    }

    /** Choose a task with its panel, and where the view `moves` show it; the cursor stays where it is. */
    choose(id, { moves = true } = {}) {
      this.stays = true;
      if (moves) this.graph.select(id);
      else this.graph.cy?.getElementById(id).select();
      this.show(this.graph.byId.get(id)); // it may have been chosen before, without its panel
      this.stays = false;
    }

    /** Choose the task that the cursor is in, and where the view `moves` show it; the cursor stays where it is in it. */
    follow(id, { moves = true } = {}) {
      if (!this.graph.cy || !this.graph.byId.has(id)) return;
      this.follows = true;
      if (moves) this.graph.select(id);
      else this.graph.cy.getElementById(id).select();
      this.follows = false;
    }

    show(task) {
      super.show(task);
      if (this.follows) this.card.hidden = true; // whoever is in the text reads it there
      else if (task && !this.stays) window.weirEditor?.toTask(task.id);
      for (const button of this.card.querySelectorAll("[data-edit='add'], [data-edit='join']")) button.hidden = task?.kind === "sink";
      this.card.querySelector("[data-edit='configure']").hidden = Boolean(task?.ways);
    }
  }

  const graph = new PreviewGraph(panel);
  window.weirGraphs = [graph.graph]; // for the console, and for whoever tests what is drawn
  return graph;
}

const shape = (graph) => JSON.stringify([graph.tasks.map((task) => [task.id, task.ways ? "alternates" : task.type]), graph.streams.map((stream) => stream.id).sort()]);

class Preview {
  constructor(card, form) {
    this.card = card;
    this.form = form;
    this.figures = card.querySelector("[data-part='figures']");
    this.near = document.getElementById("preview-near");
    this.progress = card.querySelector("[data-part='progress']");
    this.panel = document.getElementById("preview-graph");
    form.addEventListener("weir:checked", (event) => this.checked(event.detail));
    form.addEventListener("weir:problems", async (event) => (await this.graph)?.blame(event.detail));
    form.addEventListener("weir:task", async (event) => (await this.graph)?.follow(event.detail));
    form.addEventListener("weir:edited", (event) => this.edited(event.detail));
    // Another team, or another way to join what runs: another plan. Text is checked first, the format with it.
    form.addEventListener("change", (event) => this.valid && ["team", "fresh", "from"].includes(event.target.name) && this.ask());
  }

  checked(state) {
    this.valid = state === "ok";
    this.pending?.abort();
    if (this.valid) this.ask();
    else if (state === "empty") {
      this.card.hidden = true;
      this.near.hidden = true;
      this.panel.toggleAttribute("data-empty", true);
    } else {
      this.card.toggleAttribute("data-stale", true);
      this.askWritten();
    }
  }

  /** The graph of a text that has problems, where it can be read; else the last one stays. */
  async askWritten() {
    const pending = new AbortController();
    this.pending = pending;
    try {
      const response = await fetch(this.panel.dataset.written, {
        method: "POST", credentials: "same-origin", signal: pending.signal, body: new FormData(this.form),
        headers: { Accept: "application/json" },
      });
      if (response.ok) await this.drawWritten((await response.json()).graph);
    } catch { /* the last graph stays; the text is checked again as one types */ }
  }

  async drawWritten(graph) {
    if (!graph.tasks.length) {
      this.panel.toggleAttribute("data-empty", true);
      return null;
    }
    const panel = await this.open();
    panel.drawWritten(graph);
    return panel;
  }

  /** Somebody edited the graph: it shows at once what was made, and the task that one goes on with. */
  async edited({ graph, task }) {
    const panel = await this.drawWritten(graph);
    if (!panel) {
      this.panel.querySelector("[data-of='']").focus(); // where one goes on, or takes it back
      return;
    }
    if (task && panel.graph.byId?.has(task)) panel.choose(task);
    panel.graph.canvas.focus({ preventScroll: true });
  }

  open() {
    this.panel.toggleAttribute("data-empty", false);
    this.graph ??= previewGraph(this.panel);
    return this.graph;
  }

  async ask() {
    this.pending?.abort();
    const pending = new AbortController();
    this.pending = pending;
    this.card.toggleAttribute("data-stale", true);
    const slow = setTimeout(() => {
      this.card.hidden = false;
      this.progress.hidden = false;
    }, SLOW_MS);
    try {
      const response = await fetch(this.card.dataset.preview, {
        method: "POST", credentials: "same-origin", signal: pending.signal, body: new FormData(this.form),
        headers: { Accept: "application/json" },
      });
      const answer = await response.json();
      if (response.ok) await this.show(answer);
      else if (!answer.problems) this.fail(`${answer.message} ${answer.remedy ?? ""}`);
    } catch (error) {
      if (error.name !== "AbortError") this.fail("The site did not answer. The preview updates as you type.");
    } finally {
      clearTimeout(slow);
      if (this.pending === pending) this.progress.hidden = true;
    }
  }

  async show(answer) {
    this.figures.innerHTML = answer.html;
    this.near.innerHTML = answer.near_misses;
    this.near.hidden = !answer.near_misses.trim();
    this.card.hidden = false;
    this.card.toggleAttribute("data-stale", false);
    this.card.dataset.reused = answer.reused;
    await (await this.open()).draw(answer.graph);
  }

  fail(message) {
    const note = document.createElement("p");
    note.className = "text-bad text-s";
    note.textContent = message;
    this.figures.replaceChildren(note);
    this.card.hidden = false;
    this.card.toggleAttribute("data-stale", false);
  }
}

const [card, form] = [document.getElementById("preview"), document.querySelector("form[data-editor]")];
if (card && form) window.weirPreview = new Preview(card, form);
