"""Alerts, and a local receiver of what is sent, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dashboard import jobs
from dashboard.alerts import evaluating
from dashboard.alerts.models import Alert
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.models import Team
from scheduler.contracts.reports import Reports
from scheduler.history.series import Series
from workers.engine.observed import Flows

NOW_S = 1_800_000_000


def alert_of(team: Team | None, *, key: str = "a", **facts: object) -> Alert:
    """An alert that fires."""
    return Alert.objects.create(**{
        "key": key, "rule_id": "team:city/latency", "kind": "latency", "team": team, "element_kind": "dataflow",
        "element": key, "cause": "latency", "text": "Events of traffic reach its sinks late: p99 is 12 s.",
        "remedy": "See where they wait.", "severity": "warning", "phase": "firing", "since_s": NOW_S - 60,
        "fired_s": NOW_S, **facts})


@dataclass
class Receiver:
    """What came to a server of this machine, and how it answers: a status and headers for the n-th request, and with an
    error a body."""

    url: str = ""
    host: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (204, {})
    body: bytes = b""


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A server on a port that the system chooses."""
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.requests.append((self.path, dict(self.headers), body))
            status, headers = got.answer(len(got.requests))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            body = got.body if status >= 400 else b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    got.host = f"127.0.0.1:{server.server_port}"
    got.url = f"http://{got.host}/hook"
    try:
        yield got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class AlertingEstate:
    """What nodes report, what was measured, and rounds over it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch, self.now_s = monkeypatch, NOW_S
        self.states: dict[str, str] = {}
        self.facts: dict[str, object] = {}  # of each query
        self.slot = "running"
        self.disk_free_mb = 50_000.0
        self.flows = Flows()

    def round(self, latency_ms: dict[str, float | None] | None = None, *, seconds: int = 10) -> list[Alert]:
        """One round ``seconds`` later, with these latencies in history; the alerts that there are."""
        self.now_s += seconds
        history = DatabaseHistory()
        for second in range(self.now_s - 30, self.now_s):
            history.append(second, {
                Series("dataflow", key, "latency_p99_ms"): value for key, value in (latency_ms or {}).items()
                if value is not None})
        history.flush()
        self._patch.setattr(jobs, "read_live", lambda *_: self.reading())
        evaluating.evaluate_round(now_s=self.now_s)
        return list(Alert.objects.order_by("pk"))

    def reading(self) -> jobs.LiveReading:
        fragments = {
            bundle.id: {"state": self.states.get(bundle.id, "running"), "batch": 3, "batches": 3,
                        "error": "No such column" if bundle.id in self.states else None, **self.facts}
            for fragment in load_estate().fragments.values() for bundle in fragment.queries}
        slots = {"0": {"state": self.slot, "restarts": 1, "fragments": fragments}, "1": {"state": "running"}}
        return jobs.LiveReading(measured=True, flows=self.flows, reports=Reports.of({"n1": {
            "node": "n1", "at_ms": self.now_s * 1000, "disk_free_mb": self.disk_free_mb, "slots": slots}}))
