"""The site of `./weir bench live`: a process of its own, dataflows that run, and a node whose report changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import redis

from scheduler.contracts.reports import NODE_REPORTS, NodeReport, QueryReport, SlotReport
from workers.engine.channels import keys
from workers.launcher.broker import free_port
from workers.launcher.up_services import UpOptions, web

from . import site
from .what_if_workload import let_run, random_dataflow, stored

TASKS = 5
SLOTS = 64


@dataclass
class LiveSite:
    """Where it listens, who may watch what, and a way to change what its node reports."""

    port: int
    process: psutil.Process
    cookies: list[str]
    topics: list[str]
    broker: redis.Redis
    queries: dict[str, str]  # the slot's index of each query

    def change(self, number: int) -> None:
        """Let all queries report a failure that carries the number; 0: none."""
        query = QueryReport(state="backoff", error=f"change {number}") if number else QueryReport(state="running")
        slots: dict[str, SlotReport] = {}
        for query_id, index in self.queries.items():
            slot = slots.get(index, SlotReport(state="running"))
            slots[index] = replace(slot, fragments={**slot.fragments, query_id: query})
        report = NodeReport("n1", cores=SLOTS, memory_mb=64_000.0, at_ms=int(time.time() * 1000), slots=slots)
        self.broker.set(keys.observed("n1"), NODE_REPORTS.dumps(report))
        self.broker.set(keys.WORKER, "1")


@contextmanager
def live_site(folder: Path, *, teams: int, dataflows: int, clients: int) -> Iterator[LiveSite]:
    """Run the site on the database and the broker of this process.

    Parameters
    ----------
    folder : Path
        Of its state.
    teams : int
        How many, with one person each who watches.
    dataflows : int
        How many run.
    clients : int
        How many connections one person may have.
    """
    from django.conf import settings  # here, and below: Django is set up by the command

    records = [
        stored(random_dataflow(TASKS + number, seed=number), slots=SLOTS) for number in range(dataflows)]
    for record in records:
        let_run(record, rate_per_s=10.0)
    cookies, port = site.cookies(teams), free_port()
    options = UpOptions(host="127.0.0.1", port=port, slots=SLOTS, node="n1", data_dir=folder)
    with site.started(web(options), folder, site.environment(folder, connections=clients)) as process:
        yield LiveSite(
            port, process, cookies, [f"dataflow:{record.pk}" for record in records],
            redis.Redis.from_url(settings.REDIS_URL), _queries())


def _queries() -> dict[str, str]:
    from dashboard.operations.estate_store.estate_loader import load_estate

    return {
        bundle.id: bundle.slot.rpartition("/")[2]
        for fragment in load_estate().fragments.values() for bundle in fragment.queries}
