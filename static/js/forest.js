// A layout for merged graphs too large to wait for ELK: in one pass over tasks and streams, on the page itself. Sources
// stand at the left; what hangs on a task stands to its right in rows of its own, so nothing overlaps; running
// dataflows are put side by side in shelves.

const COLUMN = 236;
const GAP = 14;
const APART = 70;

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

/** Give every task a row: a leaf the next one, any other the middle of what hangs on it. Returns the parts' boxes. */
function rows({ parents, order }, heights) {
  const depth = new Map();
  const owned = new Map(order.map((id) => [id, []]));
  const roots = [];
  for (const id of order) {
    const above = parents.get(id);
    depth.set(id, 1 + Math.max(-1, ...above.map((parent) => depth.get(parent))));
    // Of several parents the deepest: its stream is then the shortest.
    const owner = above.reduce((best, parent) => (best === null || depth.get(parent) > depth.get(best) ? parent : best), null);
    if (owner === null) roots.push(id);
    else owned.get(owner).push(id);
  }
  const tall = new Map();
  for (const id of [...order].reverse()) {
    const below = owned.get(id).reduce((sum, child) => sum + tall.get(child), 0);
    tall.set(id, Math.max(below, heights.get(id) + GAP));
  }
  const trees = roots.map((root) => {
    const placed = new Map();
    let deepest = 0;
    const waiting = [[root, 0]];
    while (waiting.length) {
      const [id, top] = waiting.pop();
      placed.set(id, [depth.get(id) * COLUMN, top + tall.get(id) / 2]);
      deepest = Math.max(deepest, depth.get(id));
      let at = top + Math.max(0, (tall.get(id) - owned.get(id).reduce((sum, child) => sum + tall.get(child), 0)) / 2);
      for (const child of owned.get(id)) {
        waiting.push([child, at]);
        at += tall.get(child);
      }
    }
    return { placed, width: (deepest + 1) * COLUMN, height: tall.get(root) };
  });
  return trees.sort((one, other) => other.height - one.height);
}

/** Positions of tasks' centres, for a stage of this shape; `graph.tasks` have heights. */
export function forest(graph, shape) {
  const trees = rows(neighbours(graph), new Map(graph.tasks.map((task) => [task.id, task.height])));
  const area = trees.reduce((sum, tree) => sum + (tree.width + APART) * (tree.height + APART), 0);
  const widest = Math.max(Math.sqrt(area * Math.max(0.6, shape.ratio)), ...trees.map((tree) => tree.width));
  const nodes = {};
  const columns = [];
  for (const tree of trees) {
    // The shortest column that there is, as long as another one would be too wide.
    const wide = columns.reduce((sum, column) => sum + column.width + APART, 0);
    let column = wide + tree.width <= widest || !columns.length ? null : columns.reduce((a, b) => (b.height < a.height ? b : a));
    if (column === null) columns.push((column = { left: wide, width: tree.width, height: 0 }));
    for (const [id, [x, y]] of tree.placed) nodes[id] = [column.left + x, column.height + y];
    column.height += tree.height + APART;
  }
  return { nodes, edges: {}, straight: true };
}
