"""Every route and live topic, as each role and as people of another team: who is let in, and who changes something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.live.protocol import _BUILDERS, build
from dashboard.operations.estate import load_estate
from dashboard.teams.permissions import NOBODY, viewer_of
from scheduler.model.errors import WeirError
from tests.dashboard.building import World, document, planned, running

WHO = ("anonymous", "outsider", "mo", "ben", "vera", "carla", "ana", "dev", "root")
TABLE = Path(__file__).with_name("routes.txt")
NOBODYS = "00000000-0000-4000-8000-000000000000"
METHODS = ("get", "post", "put", "delete")
QUERIES = {"live/snapshot": {"topic": "estate"}, "api/history": {"kind": "estate"}}


def routes(resolver: Any = None, before: str = "") -> Iterator[str]:
    """The pattern of every address."""
    for pattern in (resolver or get_resolver()).url_patterns:
        whole = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern, whole)
        else:
            yield whole


def expected() -> dict[tuple[str, str], str]:
    """The table: who (in the order of ``WHO``) is refused (``-``), answered (``=``) and changes something (``+``)."""
    rows = [line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {(method, "" if pattern == "/" else pattern): marks for method, pattern, marks in rows}


class Everything:
    """A private dataflow of City that runs, one that is in review, and a client of each person."""

    def __init__(self, world: World) -> None:
        record = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
        proposal = planned(world.carla, world.city, document("hush-later", visibility="private", window=7))
        self._names = {
            "dataflow_id": record.pk, "one": record.pk, "other": record.pk, "proposal_id": proposal.pk,
            "task_id": next(iter(load_estate().tasks)), "slug": "city", "name": "hook", "token_id": 1, "number": 1,
            "profile_id": NOBODYS, "sweep_id": NOBODYS, "trial_id": NOBODYS, "way": "pause", "task": "out",
            "team": "city"}
        text, digest = document("new", window=9), proposal.plan.digest
        self._bodies: dict[str, dict[str, Any]] = {
            "api/validate": {"text": text, "format": "json"},
            "api/near-misses": {"team": "city", "text": text, "format": "json"},
            "api/streams": {"team": "city", "text": text, "format": "json"},
            "api/dataflows": {"team": "city", "text": text, "format": "json"},
            "api/teams/<slug:slug>/secrets/<str:name>": {"value": "x"},
            "api/teams/<slug:slug>/containment": {"on": False},
            "api/teams/<slug:slug>/defragmentation": {"choice": "recommend"},
            "api/teams/<slug:slug>/when-behind": {"choice": "pause"},
            "api/dataflows/<uuidstr:dataflow_id>/when-behind": {"choice": "lose_oldest"},
            "api/dataflows/<uuidstr:dataflow_id>/schedule": {"pair": ["LSA", "DSM"]},
            "api/dataflows/<uuidstr:dataflow_id>/what-if": {"most_per_s": "50"},
            "api/proposals/<uuidstr:proposal_id>/adopt": {"key": "none"},
            "api/dataflows/<uuidstr:dataflow_id>/sinks/<str:task_id>/write-again": {"what": "refused"},
            "api/tokens": {"name": "ci"},
            "api/proposals/<uuidstr:proposal_id>/approve": {"digest": digest},
            "api/proposals/<uuidstr:proposal_id>/reject": {"digest": digest, "comment": "no"},
            "dataflows/new": {"team": "city", "text": text, "format": "json"},
            "dataflows/preview": {"team": "city", "text": text, "format": "json"},
            "dataflows/streams": {"team": "city", "text": text, "format": "json"},
            "dataflows/<uuid:dataflow_id>/remove": {},
            "teams/new": {"name": "Water", "slug": "water"},
            "teams/<slug:slug>/members": {"username": "outsider", "role": "1"},
            "teams/<slug:slug>/members/remove": {"username": "vera"},
            "teams/<slug:slug>/secrets": {"name": "hook", "value": "x"},
            "teams/<slug:slug>/containment": {"on": "0"},
            "teams/<slug:slug>/defragmentation": {"choice": "recommend"},
            "teams/<slug:slug>/when-behind": {"choice": "pause"},
            "dataflows/<uuid:dataflow_id>/when-behind": {"choice": "lose_oldest"},
            "tokens/new": {"name": "ci"},
        }
        self.topics = {
            "estate": "estate", "dataflow": f"dataflow:{record.pk}", "proposal": f"proposal:{proposal.pk}",
            "sweep": f"sweep:{NOBODYS}"}
        self._clients = {name: Client(raise_request_exception=False) for name in WHO}
        for name in WHO[1:]:
            self._clients[name].force_login(world.users[name], backend="dashboard.teams.logins.ThrottledBackend")

    def mark(self, who: str, method: str, pattern: str) -> str:
        """What comes of one request; what it changed is taken back. Empty where the address has no such method."""
        path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda name: str(self._names[name[1]]), pattern)
        before, point = AuditEntry.objects.count(), transaction.savepoint()
        try:
            body = QUERIES.get(pattern) or self._bodies.get(pattern, {})
            response = self._ask(self._clients[who], method, path, body)
            has_changed = AuditEntry.objects.count() > before
        finally:
            transaction.savepoint_rollback(point)
        assert response.status_code < 500, (who, method, path, response.content)
        is_login = response.status_code == 302 and response.url.startswith("/login/")
        if is_login or response.status_code in (401, 403, 404):
            assert not has_changed, (who, method, path)
            return "-"
        return "" if response.status_code == 405 else "+" if has_changed else "="

    def _ask(self, client: Client, method: str, path: str, body: dict[str, Any]) -> Any:
        if method == "get":
            return client.get(path, body)
        if path.startswith("/api/"):
            return getattr(client, method)(path, data=json.dumps(body), content_type="application/json")
        return getattr(client, method)(path, data=body) if method == "post" else getattr(client, method)(path)


@pytest.fixture
def everything(world: World, monkeypatch: pytest.MonkeyPatch) -> Everything:
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents())  # there is no broker
    return Everything(world)


def test_every_route_lets_in_whom_its_row_says(everything: Everything) -> None:
    let_in = {}
    for pattern in dict.fromkeys(routes()):
        if pattern.startswith(("login/", "logout/")):  # these change the session itself: test_security.py
            continue
        for method in METHODS:
            marks = "".join(everything.mark(who, method, pattern) for who in WHO)
            if len(marks) == len(WHO):
                let_in[method, pattern] = marks
    assert let_in == expected(), "a route is not in tests/dashboard/routes.txt, or lets in others"


def test_no_row_lets_another_team_in_where_it_is_a_teams(everything: Everything) -> None:
    """What names a dataflow, a proposal or a team is nobody's but its members'."""
    for (method, pattern), marks in expected().items():
        if re.search(r"dataflow_id|proposal_id|slug:slug>/(members|secrets|containment|defrag)", pattern):
            assert marks[:4] == "----", (method, pattern)
        if not pattern.startswith(("healthz", "readyz", "api/openapi.json")):
            assert marks[0] == "-", (method, pattern)
        own = ("api/tokens", "tokens/new", "teams/<slug:slug>/members/remove")  # tokens of one's own; leaving
        assert "+" not in marks[4] or pattern in own, "a viewer changes something"


def test_every_topic_is_for_whom_it_is(world: World, everything: Everything) -> None:
    assert set(everything.topics) == {"estate", *_BUILDERS}
    for name, topic in everything.topics.items():
        marks = ""
        for who in WHO:
            viewer = NOBODY if who == "anonymous" else viewer_of(world.users[who])
            try:
                build(viewer, topic)
                marks += "="
            except WeirError:
                marks += "-"
        assert marks == {"estate": "-========", "sweep": "---------"}.get(name, "----====="), name
