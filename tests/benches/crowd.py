"""`./weir bench crowd`: many proposals wait while many people write at once: how long an approval takes.

A site of its own on this machine: the web server, the Celery worker and the clock, on a database and a broker of its
own, and nodes that are played. Dataflows of some sources run; many more are stored, at rest. The proposals that wait
are of several teams, and half of them share a source that runs, so that what is approved touches them. Then people
write over HTTP, each on average once in ten seconds: they submit, approve, cancel and comment, so that about as many
proposals stay open. Told are the times of each kind of request, and how they were answered: 409 is a plan that was
changed by what was approved before it. The command fails where an approval takes a second or more at p99, or where
anything is answered with 500, or not at all.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scheduler.model.documents import to_document
from tests.benches import results
from tests.benches.arguments import count, positive
from workers.launcher import up_services
from workers.launcher.broker import free_port
from workers.launcher.supervise import Service

from . import site
from .planning_workload import resident, temporary_database
from .site_estate import RATE_PER_S, let_dataflows_run
from .what_if_workload import own_broker

LIMIT_S = 1.0
TEAMS = 10
NODES, SLOTS = ("n1", "n2", "n3", "n4"), 4
RUNNING = 40  # dataflows, by ten sources
EVERY_S = 10.0  # a person writes, on average
ACTS = {"submit": 30, "approve": 25, "cancel": 5, "comment": 40}  # of a hundred
ANSWERED_WITHIN_S = 120.0
NO_ANSWER = 0
PLANNED_WITHIN_S = 900.0
OWN_SOURCES = 1_000_000  # seeds from here on are of sources that nobody else reads


@dataclass
class CrowdedSite:
    """Who writes, what waits, and how each request was answered."""

    port: int
    tokens: Sequence[str]  # of one person of each team, who may do everything there
    waiting: deque[str] = field(default_factory=deque)
    took_s: dict[str, list[float]] = field(default_factory=lambda: {act: [] for act in ACTS})
    statuses: dict[str, Counter[int]] = field(default_factory=lambda: {act: Counter() for act in ACTS})
    submitted: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def next_number(self) -> int:
        """Of a dataflow that was not submitted yet."""
        with self.guard:
            self.submitted += 1
            return self.submitted


class Writer:
    """One person."""

    def __init__(self, crowd: CrowdedSite, number: int) -> None:
        self._crowd, self._team = crowd, number % TEAMS
        self._chance = random.Random(number)

    def write_until(self, end_s: float) -> None:
        """Write now and then, until that moment of the monotonic clock."""
        time.sleep(self._chance.uniform(0, EVERY_S))
        while time.monotonic() < end_s:
            getattr(self, self._chance.choices(list(ACTS), ACTS.values())[0])()
            time.sleep(self._chance.expovariate(1 / EVERY_S))

    def submit(self) -> None:
        """Another dataflow: every other one reads a source that runs."""
        number = self._crowd.next_number()
        source = number % 10 if number % 2 else OWN_SOURCES + number
        dataflow = replace(
            resident(100_000 + number, source, number // 10 % 4), name=f"crowd-{number}",
            rates_per_s={"sense-0": RATE_PER_S})
        status, answer = self._ask("submit", "POST", "/api/dataflows", {
            "team": f"crowd-{self._team}", "text": json.dumps(to_document(dataflow)), "format": "json"})
        if status == 201:
            self._crowd.waiting.append(answer["proposal"]["id"])

    def approve(self) -> None:
        """One of those that wait, as it is now; one that is not planned yet waits on."""
        if (proposal := self._one_waiting()) is None:
            return
        status, shown = self._ask("", "GET", f"/api/proposals/{proposal}")
        if status == 200 and shown["author"] == f"writer-{self._team}":
            self._crowd.waiting.append(proposal)  # others approve it
        elif status == 200 and shown["status"] == "pending":
            self._ask("approve", "POST", f"/api/proposals/{proposal}/approve", {"digest": shown["digest"]})
        elif status == 200 and shown["status"] == "computing":
            self._crowd.waiting.append(proposal)

    def cancel(self) -> None:
        """One of those that wait."""
        if (proposal := self._one_waiting()) is not None:
            self._ask("cancel", "POST", f"/api/proposals/{proposal}/cancel", {})

    def comment(self) -> None:
        """Say something of one that waits on."""
        if (proposal := self._one_waiting()) is not None:
            self._crowd.waiting.append(proposal)
            self._ask("comment", "POST", f"/api/proposals/{proposal}/comments", {"text": "Why this source?"})

    def _one_waiting(self) -> str | None:
        try:
            return self._crowd.waiting.popleft()
        except IndexError:
            return None

    def _ask(self, act: str, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The answer's status and body; what it took is kept for the kind of act."""
        headers = {
            "Authorization": f"Bearer {self._crowd.tokens[self._team]}", "Content-Type": "application/json"}
        # The site ends a connection that is idle for five seconds: each request has one of its own.
        connection = http.client.HTTPConnection("127.0.0.1", self._crowd.port, timeout=ANSWERED_WITHIN_S)
        began_s = time.monotonic()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            status, text = NO_ANSWER, b""
        finally:
            connection.close()
        if act:
            self._crowd.took_s[act].append(time.monotonic() - began_s)
            self._crowd.statuses[act][status] += 1
        return status, json.loads(text) if text.startswith((b"{", b"[")) else None


def main(argv: Sequence[str] | None = None) -> int:
    """Let them write, print the table, write JSON; fails where the limit is missed or an answer is a 500."""
    parser = argparse.ArgumentParser(prog="weir bench crowd", description=__doc__)
    parser.add_argument("--proposals", type=count, default=300, help="that wait when it begins")
    parser.add_argument("--dataflows", type=count, default=1000, help="that are stored")
    parser.add_argument("--writers", type=count, default=50)
    parser.add_argument("--seconds", type=positive, default=300.0, help="for which they write")
    parser.add_argument("--out", type=Path, default=Path("bench-results/crowd.json"))
    options = parser.parse_args(argv)
    load_before = os.getloadavg()[0]
    with running_site(dataflows=options.dataflows) as crowd:
        _in_threads([_filling(crowd, number, options.proposals) for number in range(TEAMS)])
        _until_planned()
        crowd.took_s, crowd.statuses = ({act: kind() for act in ACTS} for kind in (list, Counter))
        waiting, end_s = _open_proposals(), time.monotonic() + options.seconds
        _in_threads([(Writer(crowd, number).write_until, end_s) for number in range(options.writers)])
        rows, left = rows_of(crowd), _open_proposals()
    print(results.table(rows))
    results.write(options.out, {
        "machine": results.machine(), "load_before": load_before, "load_after": os.getloadavg()[0],
        "open_before": waiting, "open_after": left, "rows": rows})
    print(f"\n{waiting} proposals were open, and {left} at the end; {options.dataflows} dataflows stored, "
          f"{options.writers} writers. Load of the machine before and after: {load_before:.1f}, "
          f"{os.getloadavg()[0]:.1f}. Written to {options.out}.")
    return 0 if is_within_limits(rows) else 1


@contextmanager
def running_site(*, dataflows: int) -> Iterator[CrowdedSite]:
    """A site with so many dataflows stored, of which some run, and people who may write."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="weir-crowd-")))
        stack.enter_context(temporary_database(folder, name="weir.sqlite3"))
        stack.enter_context(own_broker(folder))
        from django.conf import settings  # here: Django is set up by the command

        let_dataflows_run(min(RUNNING, dataflows), nodes=NODES, slots=SLOTS)
        _store(dataflows - RUNNING)
        crowd, env = CrowdedSite(free_port(), _tokens()), site.environment(folder, connections=100)
        played = Service("nodes", (
            sys.executable, "-P", "-m", "tests.benches.played_nodes", str(SLOTS), *NODES))
        stack.enter_context(site.started(played, folder, env))
        options = up_services.UpOptions(host="127.0.0.1", port=crowd.port, slots=SLOTS, node=NODES[0], data_dir=folder)
        for service in (up_services.web(options), up_services.worker(url=settings.REDIS_URL)):
            stack.enter_context(site.started(service, folder, env))
        yield crowd


def _store(dataflows: int) -> None:
    """Dataflows that are at rest."""
    from dashboard.catalog.models import DataflowRecord, DataflowVersion  # here: Django is set up by the command
    from dashboard.teams.models import Team, User

    team, author = Team.objects.get(slug="bench"), User.objects.get(username="engineer")
    records = DataflowRecord.objects.bulk_create(
        DataflowRecord(team=team, author=author, name=f"stored-{number}", visibility="shared", tasks=8,
                       status="removed") for number in range(max(0, dataflows)))
    document = to_document(resident(0, 0, 0))
    DataflowVersion.objects.bulk_create(
        DataflowVersion(dataflow=record, number=1, text="", format="json", document=document, author=author)
        for record in records)


def _tokens() -> list[str]:
    """Of one engineer of each team, who reviews what the others propose: in every team an admin but in the own."""
    from dashboard.teams.models import Membership, Role, Team, User  # here: Django is set up by the command
    from dashboard.teams.services import create_token

    teams = [Team.objects.create(slug=f"crowd-{number}", name=f"Crowd {number}") for number in range(TEAMS)]
    teams.append(Team.objects.get(slug="bench"))
    people = [User.objects.create(username=f"writer-{number}") for number in range(TEAMS)]
    Membership.objects.bulk_create(
        Membership(user=person, team=team, role=Role.ADMIN) for person in people for team in teams)
    return [create_token(actor=person, name="crowd", scope="admin")[1] for person in people]


def _filling(crowd: CrowdedSite, number: int, proposals: int) -> tuple[Any, ...]:
    """What one writer submits before it begins."""
    writer = Writer(crowd, number)
    share = proposals // TEAMS + (number < proposals % TEAMS)
    return (lambda times: [writer.submit() for _ in range(times)], share)


def _in_threads(calls: Sequence[tuple[Any, ...]]) -> None:
    threads = [threading.Thread(target=act, args=arguments, daemon=True) for act, *arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _open_proposals() -> int:
    from dashboard.approvals.models import Proposal  # here: Django is set up by the command

    return Proposal.objects.open().count()


def _until_planned() -> None:
    """Wait until every proposal has its plan."""
    from dashboard.approvals.models import Proposal  # here: Django is set up by the command

    deadline_s = time.monotonic() + PLANNED_WITHIN_S
    while computing := Proposal.objects.filter(status="computing").count():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{computing} plans are not there")
        time.sleep(1)


def is_within_limits(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether approvals were quick enough, and nothing was answered with 500, or not at all."""
    of_approvals = next(row for row in rows if row["request"] == "approve")
    return of_approvals["times"] > 0 and of_approvals["p99 s"] < LIMIT_S and not any(
        row["500"] or row["none"] for row in rows)


def rows_of(crowd: CrowdedSite) -> list[dict[str, Any]]:
    """A row of each kind of request: how often, quantiles of what it took in s, and how it was answered."""
    rows = []
    for act in ACTS:
        took_s, statuses = sorted(crowd.took_s[act]), crowd.statuses[act]
        row: dict[str, Any] = {"request": act, "times": len(took_s)}
        for part in (50, 90, 99):
            row[f"p{part} s"] = round(took_s[min(len(took_s) - 1, len(took_s) * part // 100)], 3) if took_s else None
        row["most s"] = round(took_s[-1], 3) if took_s else None
        row["done"] = sum(statuses[status] for status in (200, 201))
        row |= {str(status): statuses[status] for status in (409, 429, 503, 500)}
        row["none"] = statuses[NO_ANSWER]
        row["other"] = len(took_s) - sum(statuses[status] for status in (200, 201, 409, 429, 503, 500, NO_ANSWER))
        rows.append(row)
    return rows
