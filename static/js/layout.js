// Where every task of a graph stands and how its streams run: a layered layout (Sugiyama, Tagawa and Toda, 1981), worked
// out on the page itself in one go, so that nothing is waited for. Sources begin; what reads a task stands further along.

const SWEEPS = 8; // over the layers, for few crossings
const ALIGNMENTS = 10; // for straight streams
const TRACK = 12; // between streams that turn side by side
const STRAIGHT = 4; // how much more a stream that passes a layer wants to be straight than a task

/** Parents and children by task, and the tasks upstream first. */
function neighbours(graph) {
  const parents = new Map(graph.tasks.map((task) => [task.id, []]));
  const children = new Map(graph.tasks.map((task) => [task.id, []]));
  for (const stream of graph.streams) {
    parents.get(stream.target).push(stream.source);
    children.get(stream.source).push(stream.target);
  }
  const missing = new Map([...parents].map(([id, above]) => [id, above.length]));
  const order = graph.tasks.map((task) => task.id).filter((id) => !missing.get(id));
  for (const id of order) {
    for (const child of children.get(id)) {
      missing.set(child, missing.get(child) - 1);
      if (!missing.get(child)) order.push(child);
    }
  }
  return { parents, children, order };
}

/** The parts of a graph that no stream joins, each as its tasks, upstream first. */
function parts({ parents, children, order }) {
  const part = new Map();
  const found = [];
  for (const first of order) {
    if (part.has(first)) continue;
    const waiting = [first];
    part.set(first, found.length);
    while (waiting.length) {
      const id = waiting.pop();
      for (const next of [...parents.get(id), ...children.get(id)]) {
        if (part.has(next)) continue;
        part.set(next, found.length);
        waiting.push(next);
      }
    }
    found.push([]);
  }
  for (const id of order) found[part.get(id)].push(id);
  return found;
}

/** How far along each task stands: behind all that it reads, and a source right before what reads it. */
function depths(ids, { parents, children }) {
  const depth = new Map();
  for (const id of ids) depth.set(id, 1 + Math.max(-1, ...parents.get(id).map((parent) => depth.get(parent))));
  for (const id of ids) {
    if (!parents.get(id).length && children.get(id).length) depth.set(id, Math.min(...children.get(id).map((child) => depth.get(child))) - 1);
  }
  return depth;
}

/** Layers of cells: tasks, and where a stream passes a layer. Cells know those before and after them. */
function layered(ids, streams, around, sizes) {
  const depth = depths(ids, around);
  const layers = [];
  const cell = (at, task, across) => {
    const made = { task, across, at, before: [], after: [] };
    (layers[at] ??= []).push(made);
    return made;
  };
  const cells = new Map();
  // Depth first, so that what belongs together begins side by side.
  const waiting = ids.filter((id) => !around.parents.get(id).length).reverse();
  while (waiting.length) {
    const id = waiting.pop();
    if (cells.has(id)) continue;
    cells.set(id, cell(depth.get(id), id, sizes.get(id).across));
    waiting.push(...[...around.children.get(id)].reverse());
  }
  const ways = new Map();
  for (const stream of streams) {
    const way = [cells.get(stream.source)];
    for (let at = way[0].at + 1; at < depth.get(stream.target); at += 1) way.push(cell(at, null, TRACK));
    way.push(cells.get(stream.target));
    for (let step = 1; step < way.length; step += 1) {
      way[step - 1].after.push(way[step]);
      way[step].before.push(way[step - 1]);
    }
    ways.set(stream.id, way);
  }
  return { layers, cells, ways };
}

const mean = (cells, of) => cells.reduce((sum, each) => sum + of(each), 0) / cells.length;

/** How often streams cross between two layers: pairs that are the other way round, counted in a binary indexed tree. */
function crossings(layers) {
  let total = 0;
  for (let at = 1; at < layers.length; at += 1) {
    const tree = new Uint32Array(layers[at].length + 1);
    let seen = 0;
    for (const one of layers[at - 1]) {
      const ends = one.after.map((other) => other.place);
      for (const end of ends) {
        let behind = seen;
        for (let i = end + 1; i > 0; i -= i & -i) behind -= tree[i];
        total += behind;
      }
      for (const end of ends) for (let i = end + 1; i < tree.length; i += i & -i) tree[i] += 1;
      seen += ends.length;
    }
  }
  return total;
}

const number = (layers) => layers.forEach((layer) => layer.forEach((each, place) => Object.assign(each, { place })));

/** Orders each layer by where its neighbours stand, there and back; the order with the fewest crossings stays. */
function order(layers) {
  number(layers);
  let [best, least] = [layers.map((layer) => [...layer]), crossings(layers)];
  for (let sweep = 0; sweep < SWEEPS && least; sweep += 1) {
    const back = sweep % 2;
    for (const layer of back ? [...layers].reverse() : layers) {
      for (const each of layer) {
        const next = back ? each.after : each.before;
        each.wish = next.length ? mean(next, (other) => other.place) : each.place;
      }
      layer.sort((one, other) => one.wish - other.wish || one.place - other.place);
      layer.forEach((each, place) => Object.assign(each, { place }));
    }
    const found = crossings(layers);
    if (found < least) [best, least] = [layers.map((layer) => [...layer]), found];
  }
  layers.forEach((layer, at) => layer.splice(0, layer.length, ...best[at]));
  number(layers);
}

/** Stand as near to one's wish as order and distances allow: isotonic regression, by pooling adjacent violators. */
function settle(layer, gap) {
  const blocks = [];
  let offset = 0;
  layer.forEach((each, place) => {
    if (place) offset += (layer[place - 1].across + each.across) / 2 + gap;
    each.offset = offset;
    let block = { sum: each.pull * (each.wish - offset), pull: each.pull, cells: [each] };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].pull > block.sum / block.pull) {
      const before = blocks.pop();
      before.cells.push(...block.cells);
      block = { sum: before.sum + block.sum, pull: before.pull + block.pull, cells: before.cells };
    }
    blocks.push(block);
  });
  for (const block of blocks) for (const each of block.cells) each.y = block.sum / block.pull + each.offset;
}

/** Across the flow: neighbours pull, so that streams run straight where they can. */
function align(layers, gap) {
  for (const layer of layers) {
    for (const each of layer) Object.assign(each, { wish: 0, pull: each.task === null ? STRAIGHT : 1 });
    settle(layer, gap);
  }
  for (let round = 0; round < ALIGNMENTS; round += 1) {
    const back = round % 2 === 0;
    for (const layer of back ? [...layers].reverse() : layers) {
      for (const each of layer) {
        const near = back ? each.after : each.before;
        const next = near.length ? near : [...each.before, ...each.after];
        each.wish = next.length ? mean(next, (other) => other.y) : each.y;
      }
      settle(layer, gap);
    }
  }
}

/** Where streams turn between two layers: one track for all that leave a task, ordered so that few of them cross. */
function tracks(layer) {
  const turning = layer.filter((each) => each.after.some((other) => Math.abs(other.y - each.y) >= 1));
  const isDown = (each) => mean(each.after, (other) => other.y) >= each.y;
  const down = turning.filter(isDown).sort((one, other) => other.y - one.y);
  const up = turning.filter((each) => !isDown(each)).sort((one, other) => one.y - other.y);
  const taken = [];
  let count = 0;
  for (const each of [...down, ...up]) {
    const ends = [each.y, ...each.after.map((other) => other.y)];
    const [low, high] = [Math.min(...ends) - 4, Math.max(...ends) + 4];
    each.track = 1 + Math.max(-1, ...taken.filter((other) => other.low < high && low < other.high).map((other) => other.track));
    taken.push({ low, high, track: each.track });
    count = Math.max(count, each.track + 1);
  }
  return count;
}

/** One part: its tasks' centres and its streams' points, from 0 on, along the flow and across it. */
function place(ids, streams, around, sizes, gaps) {
  const { layers, cells, ways } = layered(ids, streams, around, sizes);
  order(layers);
  align(layers, gaps.across);
  let along = 0;
  const columns = layers.map((layer) => {
    const thick = Math.max(...layer.map((each) => (each.task === null ? 0 : sizes.get(each.task).along)));
    const count = tracks(layer);
    const column = { middle: along + thick / 2, end: along + thick, count, gap: gaps.along + Math.max(0, count - 2) * TRACK };
    along = column.end + column.gap;
    return column;
  });
  const all = layers.flat();
  const top = Math.min(...all.map((each) => each.y - each.across / 2));
  const bottom = Math.max(...all.map((each) => each.y + each.across / 2));
  const nodes = new Map([...cells].map(([id, each]) => [id, [columns[each.at].middle, each.y - top]]));
  const edges = new Map([...ways].map(([id, way]) => {
    const [first, last] = [way[0], way[way.length - 1]];
    const points = [[columns[first.at].middle + sizes.get(first.task).along / 2, first.y - top]];
    way.slice(1).forEach((next, step) => {
      const each = way[step];
      if (Math.abs(next.y - each.y) < 1) return;
      const { end, gap, count } = columns[each.at];
      const turn = end + gap / 2 + ((each.track ?? 0) - (count - 1) / 2) * TRACK;
      points.push([turn, each.y - top], [turn, next.y - top]);
    });
    points.push([columns[last.at].middle - sizes.get(last.task).along / 2, last.y - top]);
    return [id, points];
  }));
  return { nodes, edges, along: along - columns[columns.length - 1].gap, across: bottom - top };
}

/**
 * Positions of tasks' centres and points of streams.
 *
 * `graph.tasks` have `width` and `height`; where its streams are `labelled`, there is room for what they say.
 * `shape.direction` is RIGHT or DOWN, `shape.ratio` the stage's width by its height: parts that no stream joins are put
 * side by side accordingly.
 */
export function layOut(graph, shape) {
  const right = shape.direction === "RIGHT";
  const sizes = new Map(graph.tasks.map(({ id, width, height }) => [id, right ? { along: width, across: height } : { along: height, across: width }]));
  const gaps = right ? { along: graph.labelled ? 78 : 50, across: 26, parts: 54 } : { along: 58, across: 24, parts: 54 };
  const around = neighbours(graph);
  const part = new Map();
  const found = parts(around);
  found.forEach((ids, at) => ids.forEach((id) => part.set(id, at)));
  const streams = found.map(() => []);
  for (const stream of graph.streams) streams[part.get(stream.source)].push(stream);
  const placed = found.map((ids, at) => place(ids, streams[at], around, sizes, gaps)).sort((one, other) => other.along - one.along); // so that no column grows into the next
  const area = placed.reduce((sum, each) => sum + (each.along + gaps.parts) * (each.across + gaps.parts), 0);
  const ratio = right ? Math.max(0.6, shape.ratio) : 1 / Math.max(0.6, shape.ratio);
  const longest = Math.max(Math.sqrt(area * ratio), ...placed.map((each) => each.along));
  const layout = { nodes: {}, edges: {} };
  const columns = [];
  for (const each of placed) {
    // The shortest column that there is, as long as another one would reach too far.
    const reach = columns.reduce((sum, column) => sum + column.along + gaps.parts, 0);
    let column = reach + each.along <= longest || !columns.length ? null : columns.reduce((one, other) => (other.across < one.across ? other : one));
    if (column === null) columns.push((column = { begin: reach, along: each.along, across: 0 }));
    const at = ([along, across]) => {
      const point = [Math.round(column.begin + along), Math.round(column.across + across)];
      return right ? point : point.reverse();
    };
    for (const [id, point] of each.nodes) layout.nodes[id] = at(point);
    for (const [id, points] of each.edges) layout.edges[id] = points.map(at);
    column.across += each.across + gaps.parts;
  }
  return layout;
}
