"""How soon a submission is planned, and how soon after its approval its output has an event: installations in turn.

    ./weir up --data-dir one --port 8131 > one.log &
    python -m tests.benches.first_event one.log [other.log …] [--rounds 8]

Each log is that of an installation's first start, which says where it is and how to log in. A round submits a dataflow
of five tasks that shares none with another, approves it, waits for an event and removes it, at one installation after
the other, in the opposite order of the round before.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import json
import re
import statistics
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .arguments import count
from .results import table

DOCUMENT = """name: First event {number}
tasks:
  - {{id: city, type: urban_sensing, config: {{seed: {number}, sensors: 20}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - {{id: smooth, type: kalman_filter, config: {{process_noise: 0.125, sensor_noise: 0.32, estimated_error: 30}}}}
  - {{id: warm, type: sql, config: {{query: "SELECT * FROM input WHERE obs = 'temperature'"}}}}
  - {{id: out, type: output, config: {{name: first{number}}}}}
streams: [{{from: city, to: parse}}, {{from: parse, to: smooth}}, {{from: smooth, to: warm}}, {{from: warm, to: out}}]
rates: {{city: 10}}
"""
ENGINEER, APPROVER, TEAM = "carla", "ana", "city"
LOOK_S, WITHIN_S, BETWEEN_S = 0.05, 120.0, 6.0
Value = TypeVar("Value")


class Caller:
    """Somebody who is logged in at an installation."""

    def __init__(self, address: str, username: str, password: str) -> None:
        self._address, self._cookies = address, http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        with self._opener.open(f"{address}/login/", timeout=WITHIN_S):
            pass
        form = {"username": username, "password": password, "csrfmiddlewaretoken": self._token()}
        request = urllib.request.Request(
            f"{address}/login/", urllib.parse.urlencode(form).encode(), {"Referer": f"{address}/login/"})
        with self._opener.open(request, timeout=WITHIN_S):
            pass

    def get(self, path: str) -> Any:
        """What the API answers."""
        return self._answered(urllib.request.Request(self._address + path))

    def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """What the API answers to a change."""
        return self._answered(urllib.request.Request(
            self._address + path, json.dumps(content).encode(),
            {"Content-Type": "application/json", "X-CSRFToken": self._token(), "Referer": self._address}))

    def _answered(self, request: urllib.request.Request) -> Any:
        with self._opener.open(request, timeout=WITHIN_S) as answer:
            return json.load(answer)

    def _token(self) -> str:
        return next(str(cookie.value) for cookie in self._cookies if "csrf" in cookie.name)


class Installation:
    """An engineer and an approver of one installation."""

    def __init__(self, log: Path) -> None:
        text = log.read_text()
        address = re.search(r"ready after .*: (http://[^/\s]+)", text)
        if address is None:
            raise SystemExit(f"{log} has no “ready after …”: give the log of an installation that has started.")
        passwords = dict(re.findall(r"log in as (\S+)\s+password (\S+)", text))
        if not {ENGINEER, APPROVER} <= passwords.keys():
            raise SystemExit(f"{log} has no passwords: give the log of the first start with its data folder.")
        self.name = log.stem
        self._engineer, self._approver = (
            Caller(address[1], name, passwords[name]) for name in (ENGINEER, APPROVER))

    def try_once(self, number: int) -> tuple[float, float]:
        """Seconds until a submission is planned, and from its approval to the first event."""
        began_s = time.monotonic()
        submitted = self._engineer.post(
            "/api/dataflows", {"text": DOCUMENT.format(number=number), "team": TEAM})
        dataflow, proposal = submitted["dataflow"]["id"], submitted["proposal"]["id"]
        _until(lambda: self._is_planned(proposal), what="a plan")
        planned_s, began_s = time.monotonic() - began_s, time.monotonic()
        _until(lambda: self._approve(proposal), what="an approval")
        _until(lambda: self._engineer.get(f"/api/dataflows/{dataflow}/outputs/out?count=1"), what="an event")
        first_s = time.monotonic() - began_s
        removal = _until(lambda: self._remove(dataflow), what="a removal")
        _until(lambda: self._is_planned(removal), what="the plan of a removal")
        _until(lambda: self._approve(removal), what="the approval of a removal")
        return planned_s, first_s

    def _is_planned(self, proposal: str) -> bool:
        answer = self._engineer.get(f"/api/proposals/{proposal}")
        return bool(answer.get("difference")) and answer["status"] == "pending"

    def _approve(self, proposal: str) -> bool:
        digest = self._approver.get(f"/api/proposals/{proposal}").get("digest")
        self._approver.post(f"/api/proposals/{proposal}/approve", {"digest": digest} if digest else {})
        return True

    def _remove(self, dataflow: str) -> str:
        answer = self._engineer.post(f"/api/dataflows/{dataflow}/remove", {})
        return str(answer.get("id") or answer["proposal"]["id"])


def _until(look: Callable[[], Value], *, what: str) -> Value:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            if value := look():
                return value
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):  # not there yet
                raise
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not within {WITHIN_S:.0f} s")
        time.sleep(LOOK_S)


def rows(tries: Mapping[str, Sequence[tuple[float, float]]]) -> list[dict[str, Any]]:
    """A row for each installation: medians, and the first event's range; the first try warms up and does not count."""
    return [{
        "installation": name, "tries": len(runs) - 1,
        "planned s": round(statistics.median(planned_s for planned_s, _ in runs[1:]), 2),
        "first event s": round(statistics.median(first_s for _, first_s in runs[1:]), 2),
        "least": round(min(first_s for _, first_s in runs[1:]), 2),
        "most": round(max(first_s for _, first_s in runs[1:]), 2)} for name, runs in tries.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="weir bench first-event", description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, help="of the first start of each installation")
    parser.add_argument("--rounds", type=count, default=8, help="after one that does not count")
    given = parser.parse_args(argv)
    installations = [Installation(log) for log in given.logs]
    tries: dict[str, list[tuple[float, float]]] = {installation.name: [] for installation in installations}
    base = int(time.time()) % 1_000_000
    for round_number in range(given.rounds + 1):
        for installation in installations[:: 1 if round_number % 2 else -1]:
            tries[installation.name].append(installation.try_once(base + round_number))
            print(installation.name, *(f"{seconds:.2f}" for seconds in tries[installation.name][-1]), flush=True)
            time.sleep(BETWEEN_S)
    print(table(rows(tries)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
