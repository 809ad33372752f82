"""Layouts of graphs, of many drawn by chance: they go one way, and nothing lies on anything else."""

from __future__ import annotations

import random

import pytest

from tests.browser.conftest import PageOf
from tests.browser.drive import settled
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser

# Lays graphs out in the page: boxes that overlap, streams that run back or through a box that they do not join.
_FLAWS = """async graphs => {
  const { layOut } = await import("/static/js/layout.js");
  const flaws = [];
  for (const [number, { tasks, streams }] of graphs.entries()) for (const direction of ["RIGHT", "DOWN"]) {
    const graph = { labelled: number % 2 === 0, tasks, streams };
    const { nodes, edges } = layOut(graph, { direction, ratio: 1.5 });
    const say = (what, ...which) => flaws.push([number, direction, what, ...which].join(" "));
    const box = ({ id, width, height }) => ({ id, x: nodes[id][0], y: nodes[id][1], w: width / 2, h: height / 2 });
    const boxes = tasks.map(box);
    boxes.forEach((one, at) => boxes.slice(0, at).forEach((other) => {
      const apart = [Math.abs(one.x - other.x) - one.w - other.w, Math.abs(one.y - other.y) - one.h - other.h];
      if (Math.max(...apart) < 0) say("overlap", one.id, other.id);
    }));
    for (const { id, source, target } of streams) {
      const along = direction === "RIGHT" ? 0 : 1;
      if (nodes[source][along] >= nodes[target][along]) say("back", id);
      edges[id].slice(1).forEach(([x2, y2], step) => {
        const [x1, y1] = edges[id][step];
        for (const { id: met, x, y, w, h } of boxes) {
          const beside = Math.max(x1, x2) <= x - w + 2 || Math.min(x1, x2) >= x + w - 2;
          const above = Math.max(y1, y2) <= y - h + 2 || Math.min(y1, y2) >= y + h - 2;
          if (!beside && !above) say("through", id, met);
        }
      });
    }
  }
  return flaws;
}"""


def _random_graph(chance: random.Random) -> dict[str, list[dict[str, object]]]:
    """An acyclic graph of some parts, with boxes of several sizes."""
    ids = [f"t{number}" for number in range(chance.randint(1, 40))]
    density = chance.uniform(0.2, 2.0) / len(ids)
    sizes = (104, 140, 184), (46, 62, 78)
    tasks = [{"id": name, "width": chance.choice(sizes[0]), "height": chance.choice(sizes[1])} for name in ids]
    streams = [{"id": f"{one}>{other}", "source": one, "target": other} for number, other in enumerate(ids)
               for one in ids[:number] if chance.random() < density]
    return {"tasks": tasks, "streams": streams}


def test_layouts_go_one_way_and_nothing_lies_on_anything_else(site: RunningSite, page_of: PageOf) -> None:
    page, chance = page_of(None, at="/login/"), random.Random(11)
    settled(page)
    graphs = [_random_graph(chance) for _ in range(60)] + [{"tasks": [], "streams": []}]
    assert page.evaluate(_FLAWS, graphs) == []
