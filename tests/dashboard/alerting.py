"""Alerts, and a local receiver of what is sent, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

from dashboard.alerts.models import Alert
from dashboard.teams.models import Team

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
    """What came to a server of this machine, and how it answers: a status and headers for the n-th request."""

    url: str = ""
    host: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (204, {})


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
            self.send_header("Content-Length", "0")
            self.end_headers()

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
