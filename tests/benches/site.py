"""Processes of a site for measurements: on the database and the broker of this process, with a folder of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from workers.launcher.supervise import Service
from workers.processes import spawn, stop

STARTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 5


def environment(folder: Path, *, connections: int) -> dict[str, str]:
    """What the processes of a site need to find this process's database and broker.

    Parameters
    ----------
    folder : Path
        Of its state.
    connections : int
        How many live connections one person may have.
    """
    from django.conf import settings  # here: Django is set up by the command
    from django.db import connection

    variables = {
        **os.environ, "WEIR_DATA_DIR": str(folder), "REDIS_URL": settings.REDIS_URL, "WEIR_ALLOWED_HOSTS": "127.0.0.1",
        "WEIR_SECRET_KEY": settings.SECRET_KEY, "WEIR_LIVE_CONNECTIONS": str(connections), "WEIR_HTTPS": "0"}
    if connection.vendor != "sqlite":
        parts = urlsplit(os.environ["DATABASE_URL"])
        variables["DATABASE_URL"] = parts._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    return variables


@contextmanager
def started(service: Service, folder: Path, env: Mapping[str, str]) -> Iterator[psutil.Process]:
    """Run a process of the site until it is no longer needed; it serves when this gives it."""
    log = folder / f"{service.name}.log"
    with log.open("ab") as output:
        process = spawn(service.argv, env=dict(env), cwd=folder, stdout=output)
    try:
        began_s = time.monotonic()
        while not service.is_ready():
            if process.poll() is not None or time.monotonic() - began_s > STARTS_WITHIN_S:
                raise RuntimeError(f"{service.name} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield psutil.Process(process.pid)
    finally:
        stop(process, timeout_s=ENDS_WITHIN_S)


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds that a process and its children have taken."""
    times = [part.cpu_times() for part in (process, *process.children(recursive=True))]
    return sum(usage.user + usage.system for usage in times)


def memory_mb(process: psutil.Process) -> float:
    """What a process holds."""
    return process.memory_info().rss / 2**20


def cookies(teams: int) -> list[str]:
    """The Cookie header of somebody of each of so many teams, who is logged in."""
    from django.conf import settings
    from django.test import Client

    from dashboard.teams.models import Membership, Role, Team, User

    headers = []
    for number in range(teams):
        team = Team.objects.create(slug=f"watch-{number}", name=f"Watch {number}")
        user = User.objects.create(username=f"watcher-{number}")
        Membership.objects.create(user=user, team=team, role=Role.VIEWER)
        client = Client()
        client.force_login(user, backend="dashboard.teams.logins.ThrottledBackend")
        name = settings.SESSION_COOKIE_NAME
        headers.append(f"{name}={client.cookies[name].value}")
    return headers
