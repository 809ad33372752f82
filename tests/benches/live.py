"""`./weir bench live`: many people watch pages live at once: how soon each hears of a change, and what it costs.

A site of its own on this machine's loopback address, with a database and a broker of its own. People of some teams
watch the estate, and every other one a dataflow: a snapshot over HTTP, then deltas over a WebSocket. What a node
reports changes about once a second, and each change carries a number. How long it takes is from the report to the
client, the half second in between after which the site looks again included. Meanwhile somebody asks for a snapshot
five times a second, as a page does that opens, and some connections read nothing of what comes: how soon the site ends
those is told, too. The command fails where a change or a snapshot takes a second or more at p99, a change is missed,
who does not read is kept, or the site's memory grows by more than a twentieth after the first minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benches import results
from tests.benches.arguments import count, positive

from .live_clients import Clients, Page
from .live_site import LiveSite, live_site
from .planning_workload import temporary_database
from .site import cpu_s, memory_mb
from .what_if_workload import own_broker

LIMIT_S = 1.0
GROWS = 0.05
CUT_OFF_S = 90.0  # a run that is shorter says nothing of it
SETTLE_S = 5.0
CHANGES_EVERY_S = 1.03  # not a multiple of the site's interval: changes come at all moments of it
SNAPSHOTS_PER_S = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Watch, print the table, write JSON; fails where a limit is missed."""
    parser = argparse.ArgumentParser(prog="weir bench live", description=__doc__)
    parser.add_argument("--clients", type=count, default=1000)
    parser.add_argument("--teams", type=count, default=4, help="whose views of the estate differ")
    parser.add_argument("--dataflows", type=count, default=3, help="that every other client watches one of")
    parser.add_argument("--seconds", type=positive, default=600.0, help="of changes")
    parser.add_argument("--not-reading", type=count, default=20, help="connections besides, that read nothing")
    parser.add_argument("--out", type=Path, default=Path("bench-results/live.json"))
    options = parser.parse_args(argv)
    load_before = os.getloadavg()[0]
    with (
        TemporaryDirectory(prefix="weir-live-") as folder,
        temporary_database(Path(folder), name="weir.sqlite3"), own_broker(Path(folder)),
        live_site(Path(folder), teams=options.teams, dataflows=options.dataflows, clients=options.clients) as site,
    ):
        row = asyncio.run(_watch(site, options))
    print(results.table([row]))
    results.write(options.out, {
        "machine": results.machine(), "load_before": load_before, "load_after": os.getloadavg()[0], "rows": [row]})
    print(f"\nLoad of the machine before and after: {load_before:.1f}, {os.getloadavg()[0]:.1f}. "
          f"Written to {options.out}.")
    worst = max(row["update p99 s"] or LIMIT_S, row["snapshot p99 s"] or LIMIT_S)
    is_flat = row["MB after a minute"] is None or row["MB at the end"] <= (1 + GROWS) * row["MB after a minute"]
    is_rid = options.seconds < CUT_OFF_S or row["cut off"] == row["not reading"]
    return 0 if worst < LIMIT_S and not row["missed"] and is_flat and is_rid else 1


async def _watch(site: LiveSite, options: argparse.Namespace) -> dict[str, Any]:
    """Connect everybody, change what is reported once a second, and sum up."""
    pages = [
        Page(site.cookies[number % len(site.cookies)], site.topics[number // 2 % len(site.topics)]
             if number % 2 else "estate")
        for number in range(options.clients)]
    clients = Clients(site.port, pages)
    site.change(0)
    reporting = asyncio.create_task(_keep_reporting(site))
    try:
        await clients.connect()
        await asyncio.sleep(SETTLE_S)
    finally:
        reporting.cancel()
    opening, clients.snapshots_s = clients.snapshots_s, []
    asking = asyncio.create_task(clients.ask_for_snapshots(SNAPSHOTS_PER_S))
    ports = await clients.connect_without_reading(pages[0], options.not_reading)
    observed = Observed(site, ports)
    watching = asyncio.create_task(observed.look_each_second())
    used_before_s, loop = cpu_s(site.process), asyncio.get_running_loop()
    began_s = loop.time()
    changes = max(1, int(options.seconds / CHANGES_EVERY_S))
    for number in range(1, changes + 1):
        clients.began(number)
        site.change(number)
        await asyncio.sleep(began_s + number * CHANGES_EVERY_S - loop.time())
    cpu = (cpu_s(site.process) - used_before_s) / (loop.time() - began_s)
    await asyncio.sleep(SETTLE_S)
    asking.cancel()
    watching.cancel()
    closed = await clients.close()
    heard = sorted(clients.heard_s)
    return {
        "clients": len(pages) - closed, "closed": closed, "changes": changes, "heard": len(heard),
        "missed": changes * len(pages) - len(heard),
        **_quantiles("update", heard), **_quantiles("snapshot", sorted(clients.snapshots_s)),
        **_quantiles("opening", sorted(opening)),
        "site CPU cores": round(cpu, 3), **observed.figures(),
        "MB sent": round(clients.received_bytes / 1e6, 1)}


class Observed:
    """The site's process, second by second: what it holds, and which connections of those who do not read it has left.

    Parameters
    ----------
    site : LiveSite
        The site.
    ports : sequence of int
        Of those connections, at the client's end.
    """

    def __init__(self, site: LiveSite, ports: Sequence[int]) -> None:
        self._site, self._ports = site, set(ports)
        self._held_mb: list[float] = []
        self._ended_s: dict[int, float] = {}

    async def look_each_second(self) -> None:
        """Look until cancelled."""
        began_s = time.monotonic()
        while True:
            self._held_mb.append(round(memory_mb(self._site.process), 1))
            open_ports = {socket.raddr.port for socket in self._site.process.net_connections("tcp") if socket.raddr}
            for port in self._ports - open_ports - self._ended_s.keys():
                self._ended_s[port] = round(time.monotonic() - began_s, 1)
            await asyncio.sleep(1)

    def figures(self) -> dict[str, Any]:
        """What was seen."""
        held = self._held_mb
        return {
            "MB at first": held[0], "MB after a minute": held[60] if len(held) > 60 else None, "MB at most": max(held),
            "MB at the end": held[-1], "not reading": len(self._ports), "cut off": len(self._ended_s),
            "cut off within s": max(self._ended_s.values(), default=None)}


async def _keep_reporting(site: LiveSite) -> None:
    """The node goes on reporting while nothing changes: silence would be a change."""
    while True:
        await asyncio.sleep(1)
        site.change(0)


def _quantiles(what: str, sorted_s: Sequence[float]) -> dict[str, float | None]:
    def at(part: float) -> float | None:
        return round(sorted_s[min(len(sorted_s) - 1, int(part * len(sorted_s)))], 3) if sorted_s else None

    return {f"{what} p50 s": at(0.5), f"{what} p99 s": at(0.99), f"{what} max s": at(1.0)}
