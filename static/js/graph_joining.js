// Streams joined by pointer: a task under the pointer, or the chosen one, shows its outlet, and whoever drags from there
// to another task joins the two. By keyboard the same is done with Join, so the outlet is for pointers alone.

const SVG = "http://www.w3.org/2000/svg";

/** The tasks that may come to read a task: no source, none that reads it already, none from which it reads. */
function possibleReaders(graph, id) {
  const before = new Set([id]);
  const left = [id];
  while (left.length) {
    const reader = left.pop();
    for (const { source, target } of graph.streams) {
      if (target !== reader || before.has(source)) continue;
      before.add(source);
      left.push(source);
    }
  }
  const readers = new Set(graph.streams.filter(({ source }) => source === id).map(({ target }) => target));
  return new Set(graph.tasks.filter((task) => task.kind !== "source" && !before.has(task.id) && !readers.has(task.id)).map((task) => task.id));
}

export class GraphJoining {
  /** Shows outlets on a `.graph-stage`; `onJoin(source, target)` is told which two somebody joined. */
  constructor(stage, onJoin) {
    this.stage = stage;
    this.onJoin = onJoin;
    this.outlet = document.createElement("span");
    this.outlet.className = "graph-outlet";
    this.outlet.title = "Drag to another task to join them";
    this.outlet.setAttribute("aria-hidden", "true");
    this.outlet.hidden = true;
    this.wire = document.createElementNS(SVG, "svg");
    this.wire.setAttribute("class", "graph-wire");
    this.wire.setAttribute("aria-hidden", "true");
    this.line = this.wire.appendChild(document.createElementNS(SVG, "line"));
    stage.append(this.wire, this.outlet);
    stage.addEventListener("pointermove", (event) => this.moved(event));
    stage.addEventListener("pointerup", (event) => this.ended(event));
    stage.addEventListener("pointercancel", () => this.end());
    stage.addEventListener("pointerleave", () => this.source || (this.outlet.hidden = true));
    stage.addEventListener("wheel", () => this.source || (this.outlet.hidden = true), { passive: true });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.end());
    this.outlet.addEventListener("pointerdown", (event) => this.begin(event));
  }

  get graph() {
    return window.weirGraphs?.[0];
  }

  /** Where the pointer is in the stage, in px. */
  place(event) {
    const { left, top } = this.stage.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  /** The task whose box is there. */
  at([x, y]) {
    const node = this.graph?.cy?.nodes().filter((each) => {
      const box = each.renderedBoundingBox({ includeLabels: false, includeOverlays: false, includeUnderlays: false });
      return x >= box.x1 && x <= box.x2 && y >= box.y1 && y <= box.y2;
    }).last();
    return node?.nonempty() ? node.data("of") ?? node.id() : null;
  }

  moved(event) {
    const place = this.place(event);
    if (this.source) this.draw(place);
    else if (event.target !== this.outlet) this.show(this.at(place));
  }

  /** Show a task's outlet: at its right, or below it where the graph reads downwards. */
  show(id) {
    const task = id && this.graph.byId.get(id);
    this.outlet.hidden = !task || task.kind === "sink";
    if (this.outlet.hidden) return;
    this.of = id;
    const { x, y } = this.graph.cy.getElementById(id).renderedPosition();
    const zoom = this.graph.cy.zoom();
    const isDown = this.graph.shape().direction === "DOWN";
    this.outlet.style.left = `${isDown ? x : x + (task.width * zoom) / 2}px`;
    this.outlet.style.top = `${isDown ? y + (task.height * zoom) / 2 : y}px`;
  }

  begin(event) {
    if (event.button) return;
    event.preventDefault(); // no text is selected meanwhile
    this.source = this.of;
    this.readers = possibleReaders(this.graph.graph, this.source);
    this.stage.setPointerCapture(event.pointerId);
    this.stage.toggleAttribute("data-joining", true);
    this.graph.cy.batch(() => this.graph.cy.nodes().forEach((node) => {
      const id = node.data("of") ?? node.id();
      if (id !== this.source) node.addClass(this.readers.has(id) ? "joinable" : "dim");
    }));
    for (const [name, value] of [["x1", this.outlet.style.left], ["y1", this.outlet.style.top]]) this.line.setAttribute(name, value);
    this.draw(this.place(event));
  }

  draw(place) {
    const over = this.at(place);
    this.line.setAttribute("x2", `${place[0]}px`);
    this.line.setAttribute("y2", `${place[1]}px`);
    this.stage.toggleAttribute("data-joins", this.readers.has(over));
    this.graph.cy.nodes(".aimed").removeClass("aimed");
    if (this.readers.has(over)) this.graph.cy.getElementById(over).addClass("aimed");
  }

  ended(event) {
    if (!this.source) return;
    const [source, target] = [this.source, this.at(this.place(event))];
    const joins = this.readers.has(target);
    this.end();
    if (joins) this.onJoin(source, target);
  }

  end() {
    if (!this.source) return;
    this.source = null;
    this.outlet.hidden = true;
    this.stage.removeAttribute("data-joining");
    this.stage.removeAttribute("data-joins");
    this.graph.cy?.nodes().removeClass("joinable dim aimed");
  }
}
