// The heat map of overlap: one pixel a cell on a hidden canvas, drawn enlarged; a pointer or arrow keys choose a cell,
// a click or Enter opens the pair.

import { percent } from "./format.js";
import { fetchJson } from "./scripts.js";
import { token } from "./theme.js";

const RAMP = ["--surface", "--accent-line", "--accent", "--accent-strong"];
const NAMED_FROM_PX = 11; // a cell at least this large has its name beside it
const NAMES_PX = 150;
const LARGEST_CELL_PX = 64;
const MOVED_PX = 4;

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** Colours from nothing to all, as 256 steps of the theme's ramp. */
function steps() {
  const stops = RAMP.map((name) => channels(token(name)));
  return Array.from({ length: 256 }, (_, step) => {
    const along = (step / 255) * (stops.length - 1);
    const at = Math.min(stops.length - 2, Math.floor(along));
    return stops[at].map((value, part) => Math.round(value + (stops[at + 1][part] - value) * (along - at)));
  });
}

class HeatMap {
  constructor(panel) {
    this.panel = panel;
    this.canvas = panel.querySelector(".heat-canvas");
    this.stage = panel.querySelector(".heat-stage");
    this.says = panel.querySelector("[data-part='says']");
    this.wait = panel.querySelector(".graph-wait");
    this.measure = panel.dataset.measure;
    this.cell = null;
    this.listen();
    this.load();
  }

  async load() {
    try {
      const { dataflows, shared } = await fetchJson(this.panel.dataset.heatmap);
      this.dataflows = dataflows;
      this.unpack(shared);
      this.paint();
      this.fit();
      this.wait.hidden = true;
      this.stage.dataset.drawn = String(dataflows.length);
    } catch (error) {
      this.wait.textContent = "The figures could not be read; the table has the strongest pairs.";
      this.wait.toggleAttribute("data-failed", true);
      console.error(error);
    }
  }

  /** What came is the part behind the diagonal, row after row. */
  unpack(flat) {
    const size = this.dataflows.length;
    this.shared = new Uint32Array(size * size);
    let at = 0;
    for (let row = 0; row < size; row += 1) {
      for (let column = row + 1; column < size; column += 1, at += 1) {
        this.shared[row * size + column] = flat[at];
        this.shared[column * size + row] = flat[at];
      }
    }
    this.most = flat.reduce((most, value) => Math.max(most, value), 0);
  }

  share(row, column) {
    const smaller = Math.min(this.dataflows[row].tasks, this.dataflows[column].tasks);
    return smaller ? this.shared[row * this.dataflows.length + column] / smaller : 0;
  }

  /** Draw every cell as one pixel. */
  paint() {
    const size = this.dataflows.length;
    const [colours, own] = [steps(), channels(token("--line"))];
    const image = new ImageData(size, size);
    for (let row = 0; row < size; row += 1) {
      for (let column = 0; column < size; column += 1) {
        const value = this.measure === "share" ? this.share(row, column) : this.shared[row * size + column] / (this.most || 1);
        // The least overlap can be told from none.
        const step = value > 0 ? Math.max(40, Math.round(value * 255)) : 0;
        image.data.set(row === column ? own : colours[step], 4 * (row * size + column));
        image.data[4 * (row * size + column) + 3] = 255;
      }
    }
    this.pixels = new OffscreenCanvas(size, size);
    this.pixels.getContext("2d").putImageData(image, 0, 0);
    this.panel.querySelector("[data-part='least']").textContent = this.measure === "share" ? "0%" : "0";
    this.panel.querySelector("[data-part='most']").textContent = this.measure === "share" ? "100%" : `${this.most} tasks`;
  }

  /** Room for names at the left and the top, where cells are large enough to have any. */
  margin() {
    return this.scale >= NAMED_FROM_PX ? Math.min(NAMES_PX, this.stage.clientWidth * 0.28) : 0;
  }

  fit() {
    const size = this.dataflows.length;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const whole = (names) => Math.min((width - names) / size, (height - names) / size, LARGEST_CELL_PX);
    this.scale = whole(0);
    if (this.scale >= NAMED_FROM_PX) this.scale = Math.max(NAMED_FROM_PX, whole(this.margin()));
    this.least = this.scale;
    const names = this.margin();
    this.left = names + Math.max(0, (width - names - size * this.scale) / 2);
    this.top = names + Math.max(0, (height - names - size * this.scale) / 2);
    this.draw();
  }

  zoom(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2) {
    const scale = Math.max(this.least, Math.min(LARGEST_CELL_PX, this.scale * factor));
    if (scale === this.least) return this.fit();
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  draw() {
    const [width, height, ratio] = [this.stage.clientWidth, this.stage.clientHeight, devicePixelRatio];
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const [size, names] = [this.dataflows.length, this.margin()];
    context.save();
    context.beginPath();
    context.rect(names, names, width, height);
    context.clip();
    context.imageSmoothingEnabled = this.scale * ratio < 1;
    context.drawImage(this.pixels, this.left, this.top, size * this.scale, size * this.scale);
    if (this.scale >= 8) this.grid(context, size);
    if (this.cell) this.cross(context, size);
    context.restore();
    if (names) this.names(context, names);
  }

  grid(context, size) {
    context.strokeStyle = token("--surface");
    context.lineWidth = this.scale > 20 ? 2 : 1;
    context.beginPath();
    for (let line = 0; line <= size; line += 1) {
      const at = line * this.scale;
      context.moveTo(this.left + at, this.top);
      context.lineTo(this.left + at, this.top + size * this.scale);
      context.moveTo(this.left, this.top + at);
      context.lineTo(this.left + size * this.scale, this.top + at);
    }
    context.stroke();
  }

  cross(context, size) {
    const [row, column] = this.cell;
    context.fillStyle = token("--ink");
    context.globalAlpha = 0.1;
    const thick = Math.max(1, this.scale);
    context.fillRect(this.left, this.top + row * this.scale, size * this.scale, thick);
    context.fillRect(this.left + column * this.scale, this.top, thick, size * this.scale);
    context.globalAlpha = 1;
    context.strokeStyle = token("--ink");
    context.lineWidth = 2;
    const wide = Math.max(6, this.scale);
    const [x, y] = [this.left + (column + 0.5) * this.scale, this.top + (row + 0.5) * this.scale];
    context.strokeRect(x - wide / 2, y - wide / 2, wide, wide);
  }

  names(context, room) {
    const [ink, muted] = [token("--ink"), token("--ink-2")];
    const [beside, above] = [Math.max(room, this.left) - 8, Math.max(room, this.top) - 8];
    context.font = `${this.scale < 14 ? 10 : 12}px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    this.dataflows.forEach((dataflow, at) => {
      const along = (at + 0.5) * this.scale;
      const chosen = this.cell?.includes(at);
      context.fillStyle = chosen ? ink : muted;
      if (this.top + along > room) this.name(context, dataflow.name, room, beside, this.top + along, 0, chosen && this.cell[0] === at);
      if (this.left + along > room) this.name(context, dataflow.name, room, this.left + along, above, Math.PI / 2, chosen && this.cell[1] === at);
    });
  }

  /** A name that ends beside its row, or above its column; as long as there is room. */
  name(context, text, room, x, y, turn, strong) {
    if (x > this.stage.clientWidth + 10 || y > this.stage.clientHeight + 10) return;
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > room - 14) shown = `${shown.slice(0, -2)}…`;
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.textAlign = "right";
    if (strong) context.fillStyle = token("--accent");
    context.fillText(shown, 0, 0);
    context.restore();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const [column, row] = [Math.floor((x - this.left) / this.scale), Math.floor((y - this.top) / this.scale)];
    const size = this.dataflows.length;
    const names = this.margin();
    return x >= names && y >= names && row >= 0 && column >= 0 && row < size && column < size ? [row, column] : null;
  }

  choose(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.tell();
    this.draw();
  }

  tell() {
    if (!this.cell) return;
    const [row, column] = this.cell.map((at) => this.dataflows[at]);
    const parts = [];
    const add = (text, strong) => {
      const part = document.createElement(strong ? "strong" : "span");
      part.textContent = text;
      parts.push(part, " ");
    };
    if (row === column) {
      add(row.name, true);
      add(`${row.team} · ${row.tasks} tasks`);
    } else {
      const shared = this.shared[this.cell[0] * this.dataflows.length + this.cell[1]];
      add(row.name, true);
      add("and");
      add(column.name, true);
      add(shared ? `share ${shared} task${shared === 1 ? "" : "s"}, ${percent(this.share(...this.cell))} of the smaller one` : "share nothing");
    }
    this.says.replaceChildren(...parts);
  }

  open() {
    if (!this.cell) return;
    const [row, column] = this.cell.map((at) => this.dataflows[at].id);
    if (row === column) location.assign(`/dataflows/${row}/`);
    else location.assign(`/estate/overlap/${row}/${column}`);
  }

  /** Keep the chosen cell in sight. */
  follow() {
    const [row, column] = this.cell;
    const names = this.margin();
    const into = (at, from, to) => (at < from ? from - at : at + this.scale > to ? to - at - this.scale : 0);
    this.left += into(this.left + column * this.scale, names, this.stage.clientWidth);
    this.top += into(this.top + row * this.scale, names, this.stage.clientHeight);
  }

  listen() {
    const ready = (act) => (event) => this.pixels && act(event);
    this.canvas.addEventListener("pointerdown", ready((event) => this.press(event)));
    this.canvas.addEventListener("pointermove", ready((event) => this.move(event)));
    this.canvas.addEventListener("pointerup", ready((event) => this.release(event)));
    this.canvas.addEventListener("pointercancel", () => (this.from = null));
    this.canvas.addEventListener("wheel", ready((event) => {
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.offsetX, event.offsetY);
    }), { passive: false });
    this.canvas.addEventListener("keydown", ready((event) => this.key(event)));
    this.panel.addEventListener("click", ready((event) => this.button(event.target.closest("[data-heatmap-do]"))));
    document.addEventListener("weir:theme", ready(() => (this.paint(), this.draw())));
    new ResizeObserver(ready(() => this.fit())).observe(this.stage);
  }

  press(event) {
    this.from = { x: event.clientX, y: event.clientY, left: this.left, top: this.top, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.from) return this.choose(this.at(event));
    const [dx, dy] = [event.clientX - this.from.x, event.clientY - this.from.y];
    if (Math.hypot(dx, dy) > MOVED_PX) this.from.moved = true;
    if (!this.from.moved) return;
    [this.left, this.top] = [this.from.left + dx, this.from.top + dy];
    this.draw();
  }

  release(event) {
    const moved = this.from?.moved;
    this.from = null;
    if (moved) return;
    const cell = this.at(event);
    const again = String(cell) === String(this.cell);
    this.choose(cell);
    // A finger chooses first and opens at the second touch; a mouse has chosen by pointing.
    if (cell && (again || event.pointerType === "mouse")) this.open();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const size = this.dataflows.length;
    if (by) {
      const [row, column] = this.cell ?? [0, 0];
      this.choose([(row + by[0] + size) % size, (column + by[1] + size) % size]);
      this.follow();
      this.draw();
    } else if (event.key === "Enter") this.open();
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0" || event.key === "f") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  button(button) {
    if (!button) return;
    const action = button.dataset.heatmapDo;
    if (action === "fit") return this.fit();
    if (action === "in" || action === "out") return this.zoom(action === "in" ? 1.5 : 1 / 1.5);
    this.measure = action;
    for (const other of this.panel.querySelectorAll("[data-heatmap-do='shared'], [data-heatmap-do='share']")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    this.paint();
    this.draw();
  }
}

export function startHeatMap() {
  const panel = document.querySelector("[data-heatmap]");
  if (panel.querySelector(".heat-canvas")) window.weirHeatMap = new HeatMap(panel);
}
