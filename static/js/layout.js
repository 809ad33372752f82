// Where every task of a graph stands: ELK's layered layout in a Web Worker, kept by the graph's topology.

import { loadScript, VENDOR } from "./scripts.js";

const PREFIX = "weir-layout:6:";
const KEPT = 12;
const WRAPPED = 60;
const WORTH_WRAPPING = 1.4;
let elk;

async function engine() {
  if (!elk) {
    await loadScript(VENDOR.elk);
    elk = new window.ELK({ workerUrl: VENDOR.elkWorker });
  }
  return elk;
}

function recall(key) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + key));
  } catch {
    return null;
  }
}

function remember(key, layout) {
  try {
    const kept = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
    for (const name of kept.slice(0, Math.max(0, kept.length - KEPT + 1))) localStorage.removeItem(name);
    localStorage.setItem(PREFIX + key, JSON.stringify(layout));
  } catch {
    // Full or closed storage: the layout is computed again next time.
  }
}

/** Ways to lay a graph out: as it comes, and with long chains wrapped into rows, tighter or looser. */
function ways(graph, shape) {
  if (graph.tasks.length > WRAPPED || shape.direction === "DOWN") return [{}];
  const wrap = (factor) => ({ "elk.aspectRatio": String(shape.ratio), "elk.layered.wrapping.strategy": "MULTI_EDGE",
    "elk.layered.wrapping.additionalEdgeSpacing": "14", "elk.layered.wrapping.correctionFactor": factor });
  return [{}, wrap("0.8"), wrap("1.3")];
}

/** How near one may look at a layout that is shown whole, on a stage of this ratio. */
function nearness(result, ratio) {
  return Math.min(ratio / result.width, 1 / result.height);
}

/** Rows are harder to follow than one flow: they must come much nearer to be worth it. */
function chosen([straight, ...wrapped], ratio) {
  return wrapped.reduce((best, other) => {
    const gain = best === straight ? WORTH_WRAPPING : 1;
    return nearness(other, ratio) > gain * nearness(best, ratio) ? other : best;
  }, straight);
}

function request(graph, direction, way) {
  const between = graph.labelled ? 84 : 52;
  const options = {
    "elk.algorithm": "layered",
    "elk.direction": direction,
    "elk.edgeRouting": "ORTHOGONAL",
    "elk.layered.spacing.nodeNodeBetweenLayers": direction === "RIGHT" ? String(between) : "58",
    "elk.spacing.nodeNode": direction === "RIGHT" ? "34" : "24",
    "elk.layered.spacing.edgeNodeBetweenLayers": "26",
    "elk.spacing.edgeEdge": "14",
    "elk.layered.nodePlacement.strategy": graph.tasks.length > 400 ? "LINEAR_SEGMENTS" : "NETWORK_SIMPLEX",
    "elk.layered.thoroughness": graph.tasks.length > 400 ? "2" : "7",
    "elk.separateConnectedComponents": "true",
    ...way,
  };
  return {
    id: "root",
    layoutOptions: options,
    children: graph.tasks.map((task) => ({ id: task.id, width: task.width, height: task.height })),
    edges: graph.streams.map((stream) => ({ id: stream.id, sources: [stream.source], targets: [stream.target] })),
  };
}

function compact(result) {
  const nodes = {};
  for (const child of result.children) {
    nodes[child.id] = [Math.round(child.x + child.width / 2), Math.round(child.y + child.height / 2)];
  }
  const edges = {};
  for (const edge of result.edges) {
    const section = edge.sections?.[0];
    if (!section) continue;
    const points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
    edges[edge.id] = points.map((point) => [Math.round(point.x), Math.round(point.y)]);
  }
  return { nodes, edges };
}

/** Positions of tasks' centres and streams' points. `graph.topology` names the shape, so a known one is not redone. */
export async function layOut(graph, shape) {
  const key = [graph.topology, shape.direction, shape.ratio, graph.labelled].join(":");
  const known = recall(key);
  if (known && graph.tasks.every((task) => known.nodes[task.id])) return known;
  const worker = await engine();
  const results = await Promise.all(ways(graph, shape).map((way) => worker.layout(request(graph, shape.direction, way))));
  const best = chosen(results, shape.ratio);
  const layout = compact(best);
  remember(key, layout);
  return layout;
}
