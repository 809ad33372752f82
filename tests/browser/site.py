"""The site as a process of its own, with broker, Celery and a played node, for browser tests and for looking at.

``python -m tests.browser.site`` starts one and prints its address and log-ins; Ctrl-C stops it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser.forked import Forked
from tests.browser.node import PlayedNode
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a quiet weir 1923"
START_S = 300.0

# Within one Django process: tables, and people of two teams who can do everything that the tests need.
_PEOPLE = """
import django, sys; django.setup()
from django.conf import settings
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=["build"])
from dashboard.operations.services import register_node
from dashboard.teams.models import Role
from dashboard.teams.services import create_team, create_user, set_role
register_node(name=settings.LOCAL_NODE, slots=settings.LOCAL_SLOTS)
teams = {slug: create_team(slug=slug, name=name) for slug, name in (("city", "City Sensing"), ("mobility", "Mobility"))}
people = {"admin": {}, "ana": {"city": 3}, "ben": {"mobility": 3}, "carla": {"city": 2, "mobility": 2},
          "vera": {"city": 1}, "nobody": {}}
for name, roles in people.items():
    user = create_user(username=name, password=sys.argv[1], superuser=name == "admin")
    for slug, role in roles.items():
        set_role(user=user, team=teams[slug], role=Role(role))
"""

# A dataflow as carla submits or removes it and others approve that; ends once it is done, with both addresses.
_DONE = """
import django, sys, time; django.setup()
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal, remove_dataflow, submit_dataflow
from dashboard.teams.models import Team, User
what, team, within_s, *reviewers = sys.argv[1:]
carla = User.objects.get(username="carla")
key = (submit_dataflow(actor=carla, team=Team.objects.get(slug=team), text=what) if team else
       remove_dataflow(actor=carla, dataflow_id=what)).pk
ends = time.monotonic() + float(within_s)
def when(status):
    while (proposal := Proposal.objects.select_related("plan").get(pk=key)).status != status:
        assert time.monotonic() < ends, f"it is {proposal.status}, not {status}"
        time.sleep(0.05)
    return proposal
digest = when("pending").plan.digest
for reviewer in reviewers:
    approve_proposal(actor=User.objects.get(username=reviewer), proposal_id=key, digest=digest)
proposal = when("done")
print(f"/dataflows/{proposal.dataflow_id}/ /proposals/{proposal.pk}/")
"""


@dataclass
class RunningSite:
    """Where the site answers, and what belongs to it."""

    url: str
    redis_url: str
    data_dir: Path
    node: PlayedNode
    environment: dict[str, str]
    forked: Forked
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def python(self, code: str, *arguments: str) -> str:
        """Run a piece of Python in the site's environment; what it prints."""
        return self.forked.run(code, *arguments)

    def runs(self, text: str, *reviewers: str, team: str) -> tuple[str, str]:
        """Submit a dataflow of carla's and approve it, without pages; its address and its proposal's, once it runs."""
        dataflow, proposal = self.python(_DONE, text, team, str(START_S), *reviewers).split()
        return self.url + dataflow, self.url + proposal

    def removes(self, dataflow: str, *reviewers: str) -> None:
        """Remove a dataflow of carla's, by its id, and approve that; back once it is gone."""
        self.python(_DONE, dataflow, "", str(START_S), *reviewers)

    def log(self, name: str) -> str:
        """What a process has written."""
        return (self.data_dir / f"{name}.log").read_text(errors="replace")


def start_site(data_dir: Path, *, migrated: Path | None = None) -> RunningSite:
    """Start broker, site, Celery and the played node; ``stop_site`` ends them.

    ``migrated`` is a database with every migration, of which it begins with a copy.
    """
    if migrated is not None:
        shutil.copyfile(migrated, data_dir / migrated.name)
    prepared = embedded.prepare(data_dir)
    port = embedded.free_port()
    environment = os.environ | {
        "REDIS_URL": prepared.url, "WEIR_DATA_DIR": str(data_dir), "DATABASE_URL": "", "WEIR_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "dashboard.config.settings", "PYTHONPATH": str(ROOT), "WEIR_SLOTS": "2",
        "WEIR_INBOX_DIRS": str(data_dir / "inbox"),
    }
    site = RunningSite(
        url=f"http://127.0.0.1:{port}", redis_url=prepared.url, data_dir=data_dir, node=PlayedNode(prepared.url),
        environment=environment, forked=Forked(environment))
    try:
        _start(site, "broker", list(prepared.argv))
        _until(lambda: embedded.answers(prepared.url), site, "broker")
        site.python(_PEOPLE, PASSWORD)
        _start(site, "web", [sys.executable, "-m", "uvicorn", "dashboard.config.asgi:application", "--port", str(port),
                             "--log-level", "warning", "--timeout-graceful-shutdown", "1"])
        _start(site, "celery", [sys.executable, "-m", "celery", "-A", "dashboard.tasks.app", "worker", "--pool",
                                "threads", "--concurrency", "2", "--without-gossip", "--without-mingle"])
        site.node.start()
        _until(lambda: _answers(site.url), site, "web")
    except BaseException:
        stop_site(site)
        raise
    return site


def stop_site(site: RunningSite) -> None:
    """End everything, the broker last."""
    if site.node.is_alive():
        site.node.stop()
    site.forked.close()
    for process in reversed(site.processes):
        stop(process, timeout_s=5)


def _start(site: RunningSite, name: str, argv: list[str]) -> None:
    with (site.data_dir / f"{name}.log").open("ab") as log:
        site.processes.append(spawn(argv, env=site.environment, cwd=ROOT, stdout=log, stderr=log))


def _until(ready: object, site: RunningSite, name: str) -> None:
    deadline = time.monotonic() + START_S
    while not ready():
        assert site.processes[-1].poll() is None and time.monotonic() < deadline, site.log(name)
        time.sleep(0.05)


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/login/", timeout=2) as response:
        return response.status == 200
    return False


def main() -> None:
    """Start a site and wait."""
    with TemporaryDirectory(prefix="weir-site-") as folder:
        site = start_site(Path(folder))
        try:
            print(json.dumps({"url": site.url, "users": "admin ana ben carla vera nobody", "password": PASSWORD,
                              "data": folder, "redis": site.redis_url}), flush=True)
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
        finally:
            stop_site(site)


if __name__ == "__main__":
    main()
