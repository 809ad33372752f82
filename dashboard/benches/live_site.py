"""The site of `./weir bench live`: a process of its own, dataflows that run, and a node whose report changes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import redis

from scheduler.contracts.reports import NODE_REPORTS, NodeReport, QueryReport, SlotReport
from workers.engine.channels import keys
from workers.launcher.broker import free_port
from workers.launcher.services import Options, web
from workers.processes import spawn, stop

from .what_if_workload import let_run, random_dataflow, stored

TASKS = 5
SLOTS = 64
STARTS_WITHIN_S = 60.0


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

    def cpu_s(self) -> float:
        """CPU seconds that the site has taken."""
        times = self.process.cpu_times()
        return times.user + times.system

    def memory_mb(self) -> float:
        """What it holds."""
        return self.process.memory_info().rss / 2**20


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
    from django.db import connection

    records = [
        stored(random_dataflow(TASKS + number, seed=number), slots=SLOTS) for number in range(dataflows)]
    for record in records:
        let_run(record, rate_per_s=10.0)
    environment = {
        **os.environ, "WEIR_DATA_DIR": str(folder), "REDIS_URL": settings.REDIS_URL, "WEIR_ALLOWED_HOSTS": "127.0.0.1",
        "WEIR_SECRET_KEY": settings.SECRET_KEY, "WEIR_LIVE_CONNECTIONS": str(clients), "WEIR_HTTPS": "0"}
    if connection.vendor != "sqlite":
        parts = urlsplit(os.environ["DATABASE_URL"])
        environment["DATABASE_URL"] = parts._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    cookies = _cookies(teams)
    port = free_port()
    options = Options(host="127.0.0.1", port=port, slots=SLOTS, node="n1", data_dir=folder)
    service = web(options)
    with (folder / "web.log").open("ab") as log:
        process = spawn(service.argv, env=environment, cwd=folder, stdout=log)
    try:
        began_s = time.monotonic()
        while not service.is_ready():
            if process.poll() is not None or time.monotonic() - began_s > STARTS_WITHIN_S:
                raise RuntimeError(f"The site did not start: {(folder / 'web.log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield LiveSite(
            port, psutil.Process(process.pid), cookies, [f"dataflow:{record.pk}" for record in records],
            redis.Redis.from_url(settings.REDIS_URL), _queries())
    finally:
        stop(process, timeout_s=5)


def _queries() -> dict[str, str]:
    from dashboard.operations.estate import load_estate

    return {
        bundle.id: bundle.slot.rpartition("/")[2]
        for fragment in load_estate().fragments.values() for bundle in fragment.queries}


def _cookies(teams: int) -> list[str]:
    """The Cookie header of somebody of each team, who is logged in."""
    from django.conf import settings
    from django.test import Client

    from dashboard.teams.models import Membership, Role, Team, User

    cookies = []
    for number in range(teams):
        team = Team.objects.create(slug=f"watch-{number}", name=f"Watch {number}")
        user = User.objects.create(username=f"watcher-{number}")
        Membership.objects.create(user=user, team=team, role=Role.VIEWER)
        client = Client()
        client.force_login(user, backend="dashboard.teams.logins.ThrottledBackend")
        name = settings.SESSION_COOKIE_NAME
        cookies.append(f"{name}={client.cookies[name].value}")
    return cookies
