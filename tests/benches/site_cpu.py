"""`./weir bench site-cpu`: what the site takes for itself while many dataflows run, without a page open and with some.

A site of its own on this machine: the web server, and the Celery worker with the recorder, the controllers and the
clock, on a database and a broker of its own. What runs is played: the rows of dataflows that run are in the database,
and one process publishes through the broker each second what agents of some nodes would report of what the site asks
them to run, and counts in the queries' meters. CPU is told by process; that of the played nodes counts nowhere. A page
that stands open is the page, its snapshot and live topic, and what its scripts ask for every few seconds, without a
browser. Pages are of ten kinds: see ``pages_of``. The command fails where the site takes more than 0.15 of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import redis

from tests.benches import results
from tests.benches.arguments import count, positive
from workers.launcher import up_services
from workers.launcher.broker import free_port
from workers.launcher.supervise import Service

from . import site
from .planning_workload import temporary_database
from .site_estate import let_dataflows_run
from .site_pages import OpenPages, Visit
from .what_if_workload import own_broker

LIMIT_CORES = 0.15
NODES = ("n1", "n2", "n3", "n4")
SLOTS = 4
OTHERS = ("broker",)  # of which the table tells, and that are no part of the site
HEARD_WITHIN_S = 60.0


@dataclass(frozen=True)
class RunningSite:
    """Its processes by name, the broker among them; where it listens, and the dataflows and queries that run."""

    processes: Mapping[str, psutil.Process]
    port: int
    cookies: Sequence[str]
    dataflows: Sequence[str]
    queries: Sequence[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write JSON; fails where the site takes more than its limit."""
    parser = argparse.ArgumentParser(prog="weir bench site-cpu", description=__doc__)
    parser.add_argument("--dataflows", type=count, default=100, help="that run")
    parser.add_argument("--pages", type=int, default=10, help="that stand open in the second part")
    parser.add_argument("--teams", type=count, default=3, help="of which those are who have them open")
    parser.add_argument("--seconds", type=positive, default=120.0, help="of each part")
    parser.add_argument("--warm-up", type=positive, default=60.0, help="seconds before each part")
    parser.add_argument("--out", type=Path, default=Path("bench-results/site-cpu.json"))
    options = parser.parse_args(argv)
    load_before = os.getloadavg()[0]
    with running_site(dataflows=options.dataflows, teams=options.teams) as running:
        rows = asyncio.run(_measure(running, options))
    print(results.table(rows))
    results.write(options.out, {
        "machine": results.machine(), "load_before": load_before, "load_after": os.getloadavg()[0], "rows": rows})
    print(f"\nLoad of the machine before and after: {load_before:.1f}, {os.getloadavg()[0]:.1f}. "
          f"Written to {options.out}.")
    return 0 if all(row["site"] <= LIMIT_CORES for row in rows) else 1


@contextmanager
def running_site(*, dataflows: int, teams: int) -> Iterator[RunningSite]:
    """A site with so many dataflows that run, and people of so many teams besides their own, logged in."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="weir-site-")))
        stack.enter_context(temporary_database(folder, name="weir.sqlite3"))
        stack.enter_context(own_broker(folder))
        from django.conf import settings  # here: Django is set up by the command

        records = let_dataflows_run(dataflows, nodes=NODES, slots=SLOTS)
        cookies, port, env = site.cookies(teams), free_port(), site.environment(folder, connections=100)
        played = Service("nodes", (
            sys.executable, "-P", "-m", "tests.benches.played_nodes", str(SLOTS), *NODES))
        stack.enter_context(site.started(played, folder, env))
        options = up_services.UpOptions(host="127.0.0.1", port=port, slots=SLOTS, node=NODES[0], data_dir=folder)
        processes = {
            service.name: stack.enter_context(site.started(service, folder, env))
            for service in (up_services.web(options), up_services.worker(url=settings.REDIS_URL))}
        broker = redis.Redis.from_url(settings.REDIS_URL)
        processes["broker"] = psutil.Process(int(broker.info("server")["process_id"]))
        yield RunningSite(processes, port, cookies, records, _until_all_run())


def _until_all_run() -> list[str]:
    """Wait until the nodes report of every query of the estate, and name them."""
    from dashboard.operations.live_view.estate_view import view_for
    from dashboard.operations.live_view.telemetry import EVERYTHING  # here: Django is set up by the command

    deadline = time.monotonic() + HEARD_WITHIN_S
    while True:
        view = view_for(EVERYTHING)
        reported = dict(view.reading.reports.queries())
        if set(view.fragment_of) <= reported.keys() | view.estate.fragments.keys() and reported:
            return sorted(view.estate.fragments)
        if time.monotonic() > deadline:
            raise TimeoutError(f"nodes report of {len(reported)} queries only")
        time.sleep(1)


async def _measure(running: RunningSite, options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for pages in (0, options.pages) if options.pages else (0,):
        async with OpenPages(running.port, pages_of(running, pages)) as opened:
            rows.append(await _part(running, options, opened))
    return rows


def pages_of(running: RunningSite, count: int) -> list[Visit]:
    """So many pages that stand open: of the estate, of dataflows, and of what runs, by people of all teams in turn."""
    dataflows, queries = itertools.cycle(running.dataflows), itertools.cycle(running.queries)
    kinds = itertools.cycle((
        lambda: "/", lambda: f"/dataflows/{next(dataflows)}/", lambda: "/wall/",
        lambda: f"/dataflows/{next(dataflows)}/#performance", lambda: "/problems/",
        lambda: f"/estate/queries/{next(queries)}", lambda: f"/estate/slots/{NODES[0]}/0",
        lambda: f"/dataflows/{next(dataflows)}/", lambda: "/alerts/", lambda: "/estate/time"))
    return [Visit(cookie, kind()) for cookie, kind, _ in zip(
        itertools.cycle(running.cookies), kinds, range(count), strict=False)]


async def _part(running: RunningSite, options: argparse.Namespace, opened: OpenPages) -> dict[str, Any]:
    """Cores of each process over the seconds asked for, and what the pages asked for meanwhile."""
    await asyncio.sleep(options.warm_up)
    requests_before = opened.requests
    before, began_s = {name: site.cpu_s(process) for name, process in running.processes.items()}, time.monotonic()
    await asyncio.sleep(options.seconds)
    over_s = time.monotonic() - began_s
    cores = {name: (site.cpu_s(process) - before[name]) / over_s for name, process in running.processes.items()}
    memory_mb = {name: site.memory_mb(process) for name, process in running.processes.items()}
    return {
        "dataflows": len(running.dataflows), "pages": len(opened.visits),
        "requests/s": round((opened.requests - requests_before) / over_s, 1),
        "site": round(sum(used for name, used in cores.items() if name not in OTHERS), 4),
        **{name: round(used, 4) for name, used in cores.items()},
        **{f"{name} MB": round(mb) for name, mb in memory_mb.items()}}
