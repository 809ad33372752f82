// Beside the editor: what the document would reuse if it were submitted now. The site plans it each time that the text
// is valid, or another team is chosen; what is shown meanwhile is the last answer, faded. Text and graph have one
// choice: the task that the cursor is in is chosen in the graph, and the cursor goes to the task that is chosen there.

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
      this.data = graph;
      this.graph.kept = sameTasks; // of other tasks: show them whole
      await this.graph.draw(graph);
      this.card.hidden = true; // it was of the former graph
      this.follow(window.weirEditor?.columns.task, { moves: !sameTasks });
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
      else if (task) window.weirEditor?.toTask(task.id);
    }
  }

  const graph = new PreviewGraph(panel);
  window.weirGraphs = [graph.graph]; // for the console, and for whoever tests what is drawn
  return graph;
}

class Preview {
  constructor(card, form) {
    this.card = card;
    this.form = form;
    this.figures = card.querySelector("[data-part='figures']");
    this.near = document.getElementById("preview-near");
    this.progress = card.querySelector("[data-part='progress']");
    this.panel = document.getElementById("preview-graph");
    form.addEventListener("weir:checked", (event) => this.checked(event.detail));
    form.addEventListener("weir:problems", async (event) => (await this.graph)?.graph.blame(event.detail));
    form.addEventListener("weir:task", async (event) => (await this.graph)?.follow(event.detail));
    // Another team, or another way to join what runs: another plan. Text is checked first, the format with it.
    form.addEventListener("change", (event) => this.valid && ["team", "fresh"].includes(event.target.name) && this.ask());
  }

  checked(state) {
    this.valid = state === "ok";
    this.pending?.abort();
    if (this.valid) this.ask();
    else if (state === "empty") {
      this.card.hidden = true;
      this.near.hidden = true;
      this.panel.hidden = true;
    } else this.card.toggleAttribute("data-stale", true);
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
    this.panel.hidden = false;
    this.graph ??= previewGraph(this.panel);
    await (await this.graph).draw(answer.graph);
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
