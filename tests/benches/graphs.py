"""`./weir bench graphs`: how soon a dataflow's graph is painted in a browser, from navigation on, by its tasks.

A site of its own with a played node, on which the dataflows run; Chromium without a window. A figure is from the
beginning of the navigation to the frame after the graph was drawn, by the browser's own clock, with the page's answer
beside it. With a full cache the static files were fetched by an earlier look, with an empty one by this.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, StorageState

from tests.benches import results
from tests.benches.arguments import count
from tests.browser import drive
from tests.browser.documents import wide
from tests.browser.site import PASSWORD, start_site, stop_site

GOALS_S = {50: 1.0, 1500: 3.0}  # on a quiet machine
WAIT_S = 300.0  # on a machine that is not: what is slow is measured, too
# Runs before the page's own scripts: notes when the stage says that it is drawn, two frames on, when that is painted.
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('.graph-stage[data-drawn]')) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.paintedMs = performance.now(); }));
}).observe(document, { subtree: true, childList: true, attributeFilter: ['data-drawn'] });
"""
ANSWERED = "performance.getEntriesByType('navigation')[0].responseEnd"
BYTES = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter((entry) => entry.startTime <= window.paintedMs && !entry.name.includes('/static/'))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Look, print the table, write JSON; fails where a goal is missed with a full cache."""
    parser = argparse.ArgumentParser(prog="weir bench graphs", description=__doc__)
    parser.add_argument("--tasks", type=count, nargs="+", default=list(GOALS_S))
    parser.add_argument("--looks", type=count, default=9, help="with each cache, at each")
    parser.add_argument("--out", type=Path, default=Path("bench-results/graphs.json"))
    options = parser.parse_args(argv)
    load_before = os.getloadavg()[0]
    with TemporaryDirectory(prefix="weir-graphs-") as folder:
        site = start_site(Path(folder))
        try:
            rows = []
            with drive.browser() as browser:
                page = drive.log_in(drive.context(browser), site.url, "carla", PASSWORD)
                state = page.context.storage_state()
                page.context.close()
                for tasks in options.tasks:  # each before the next one runs, which takes from what there is
                    address, _ = site.runs(wide(tasks), "ana", team="city")
                    rows += _rows(browser, state, address, tasks, looks=options.looks)
        finally:
            stop_site(site)
    print(results.table(rows))
    load = {"load_before": load_before, "load_after": os.getloadavg()[0]}
    results.write(options.out, {"machine": results.machine(), **load, "rows": rows})
    print(f"\nLoad of the machine before and after: {load['load_before']:.1f}, {load['load_after']:.1f}. "
          f"Written to {options.out}.")
    return 0 if all(row["median s"] < (row["goal s"] or row["median s"] + 1) for row in rows) else 1


def _rows(browser: Browser, state: StorageState, address: str, tasks: int, *, looks: int) -> list[dict[str, Any]]:
    """A row for each cache."""
    cached = drive.context(browser, storage_state=state)
    _look(cached, address)
    rows = []
    for cache in ("full", "empty"):
        seen = []
        for _ in range(looks):
            context = cached if cache == "full" else drive.context(browser, storage_state=state)
            seen.append(_look(context, address))
            if context is not cached:
                context.close()
        painted_s, answered_s, sizes = zip(*seen, strict=True)
        rows.append({
            "tasks": tasks, "cache": cache, "looks": looks, "median s": round(statistics.median(painted_s), 2),
            "best s": round(min(painted_s), 2), "worst s": round(max(painted_s), 2),
            "answer, median s": round(statistics.median(answered_s), 2), "kB": round(max(sizes) / 1000, 1),
            "goal s": GOALS_S.get(tasks) if cache == "full" else None})
    cached.close()
    return rows


def _look(context: Any, address: str) -> tuple[float, float, int]:
    """Seconds until the graph is painted and until the page's answer has come, and bytes beside static files."""
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address, wait_until="commit", timeout=1000 * WAIT_S)
    painted_ms = drive.until(lambda: page.evaluate("window.paintedMs ?? 0"), "the graph is painted", wait_s=WAIT_S)
    seen = painted_ms / 1000, page.evaluate(ANSWERED) / 1000, page.evaluate(BYTES)
    page.close()
    return seen
