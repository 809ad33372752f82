"""`./weir bench what-if`: how soon the page of schedules answers while its slider moves, for 50 tasks and more.

A random dataflow in a database of its own, every task with a profile, at rates drawn anew for each question; first
submitted, then running by a schedule, whose measured selectivities are read and whose bundles are compared with. Three
times: the science alone (all pairs but the exact one, settled on the free slots), what the site does for one question
(reading, planning and the markup), and a question over HTTP to a server of its own, as the browser asks it. The latter
two warm and cold: what is read of database and broker is kept for five seconds while a slider moves, and a cold
question, as the first one is and each that comes after those seconds, reads it anew.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scheduler.pairs import MODEL_BASED, QUICK_PAIRS, key_of
from tests.benches import results
from tests.benches.arguments import count, positive

from .planning_workload import temporary_database
from .what_if_workload import let_run, own_broker, random_dataflow, stored

if TYPE_CHECKING:
    from dashboard.catalog.models import DataflowRecord

LIMIT_MS = 100.0
SILENT_S = 3600  # the one connection stays open while questions are timed that do not use it


def main(argv: Sequence[str] | None = None) -> int:
    """Ask, print the table, write JSON; fails where the median of a row over HTTP is above 100 ms at up to 50 tasks."""
    parser = argparse.ArgumentParser(prog="weir bench what-if", description=__doc__)
    parser.add_argument("--tasks", type=count, nargs="+", default=[10, 50, 100])
    parser.add_argument("--threads-per-task", type=positive, default=6.0, help="on average, by MBA at the middle rate")
    parser.add_argument("--questions", type=count, default=40)
    parser.add_argument("--slots", type=count, default=400, help="free slots of the estate")
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--out", type=Path, default=Path("bench-results/what-if.json"))
    options = parser.parse_args(argv)
    with (
        TemporaryDirectory(prefix="weir-what-if-") as folder, temporary_database(Path(folder)),
        own_broker(Path(folder)),
    ):
        rows = [row for tasks in options.tasks for row in _rows_of(tasks, options)]
    print(results.table(rows))
    load = os.getloadavg()[0]
    print(f"\nLoad of the machine over the last minute: {load:.1f}")
    results.write(options.out, {"machine": results.machine(), "load": load, "seed": options.seed, "rows": rows})
    print(f"Written to {options.out}.")
    over = [row for row in rows if row["way"] == "over HTTP" and row["tasks"] <= 50 and row["median ms"] > LIMIT_MS]
    return 1 if over else 0


def _rows_of(tasks: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of a dataflow that is submitted, and of the same one running: the science alone, then each way."""
    from dashboard.plans.scheduling_problem import problem_of  # here, and below: Django is set up by the command

    record = stored(random_dataflow(tasks, seed=options.seed), slots=options.slots)
    problem = problem_of(record)
    middle = _rate_for(problem, options.threads_per_task * tasks)
    rng = random.Random(options.seed)
    rates = [middle * rng.uniform(0.5, 1.5) for _ in range(options.questions)]
    with _server() as ask:
        for state in ("submitted", "running"):
            if state == "running":
                let_run(record, rate_per_s=middle)
                problem = problem_of(record)
            schedules = problem.compare(middle, pairs=QUICK_PAIRS).schedules
            size = {"tasks": tasks, "threads": max(schedule.allocation.threads for schedule in schedules),
                    "slots": max(schedule.slots for schedule in schedules), "dataflow": state}
            yield from (size | row for row in _rows(record, problem, rates, ask))


def _rows(
    record: DataflowRecord, problem: Any, rates: Sequence[float],
    ask: Callable[[DataflowRecord], Callable[[float], Any]],
) -> Iterator[dict[str, Any]]:
    """A row for each way to ask."""

    yield {"way": "science", "reading": "none"} | _timed(lambda rate: problem.compare(rate, pairs=QUICK_PAIRS), rates)
    for way, question_at in (("in process", _in_process(record)), ("over HTTP", ask(record))):
        yield {"way": way, "reading": "warm"} | _timed(question_at, rates)
        with _nothing_kept():
            yield {"way": way, "reading": "cold"} | _timed(question_at, rates)


@contextmanager
def _nothing_kept() -> Iterator[None]:
    """The site reads anew for each question, as it does for those that come seconds apart."""
    from dashboard.schedules import options

    before, options.KEPT_S = options.KEPT_S, 1e-6
    try:
        yield
    finally:
        options.KEPT_S = before


def _timed(question_at: Callable[[float], Any], rates: Sequence[float]) -> dict[str, float]:
    question_at(rates[0])  # what is read and compiled once is not a question's
    gc.collect()
    took = []
    for rate in rates:
        began = time.perf_counter()
        question_at(rate)
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return {"median ms": results.median(took) or 0.0, "p95 ms": took[int(len(took) * 0.95)], "max ms": took[-1]}


def _rate_for(problem: Any, threads: float) -> float:
    """The rate of the source at which MBA gives about so many threads."""
    low, high = 0.1, 0.1
    while _threads(problem, high) < threads:
        low, high = high, high * 2
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _threads(problem, middle) < threads else (low, middle)
    return high


def _threads(problem: Any, rate_per_s: float) -> int:
    comparison = problem.compare(rate_per_s, pairs=[MODEL_BASED])
    return comparison.schedules[0].allocation.threads if comparison.schedules else 0


def _in_process(record: DataflowRecord) -> Callable[[float], Any]:
    """The view itself, without a server around it."""
    from django.contrib.sessions.backends.db import SessionStore
    from django.test import RequestFactory

    from dashboard.pages.views.schedules import schedule_pairs
    from dashboard.teams.permissions import viewer_of

    factory = RequestFactory()

    def ask(rate_per_s: float) -> Any:
        request = factory.get("/", {"rate": rate_per_s, "pair": key_of(MODEL_BASED)})
        request.user, request.session, request.viewer = record.author, SessionStore(), viewer_of(record.author)
        response = schedule_pairs(request, record.pk)
        assert response.status_code == 200, response.content
        return response

    return ask


@contextmanager
def _server() -> Iterator[Callable[[DataflowRecord], Callable[[float], Any]]]:
    """The site on a port of its own, in this process; gives a way to ask it as the record's author."""
    import uvicorn

    from dashboard.config.asgi import application

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(
        application, port=port, log_level="warning", lifespan="off", timeout_keep_alive=SILENT_S))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        yield lambda record: _over_http(connection, record)
    finally:
        connection.close()
        server.should_exit = True
        thread.join(10)


def _over_http(connection: http.client.HTTPConnection, record: DataflowRecord) -> Callable[[float], Any]:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(record.author, backend="dashboard.teams.logins.ThrottledBackend")
    headers = {"Accept": "application/json",
               "Cookie": f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"}

    def ask(rate_per_s: float) -> bytes:
        connection.request(
            "GET", f"/dataflows/{record.pk}/schedule/pairs.json?rate={rate_per_s}&pair={key_of(MODEL_BASED)}",
            headers=headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return answer

    return ask
