"""Every route and live topic, as each role and as people of another team: who is let in, and who changes something."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.urls import get_resolver

from dashboard import jobs, node_calls
from dashboard.live.live_protocol import _SUBJECTS, build
from dashboard.teams.models import TokenScope
from dashboard.teams.permissions import NOBODY, viewer_of
from scheduler.model.errors import WeirError
from tests.conftest import SHARE
from tests.dashboard.building import World
from tests.dashboard.one_of_each import LEFT, SERVER, WHO, Everything

TABLE = Path(__file__).with_name("routes.txt")
METHODS = ("get", "post", "put", "delete")


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


@pytest.fixture
def everything(world: World, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Everything:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", SERVER)
    settings.WEBHOOK_HOSTS = ["127.0.0.1:9"]
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents())  # there is no broker
    monkeypatch.setattr(node_calls, "newest_types", lambda _: {})
    monkeypatch.setattr(node_calls, "begin_search", lambda *_, **__: None)
    return Everything(world)


def drawn(request: pytest.FixtureRequest, patterns: list[Any]) -> list[Any]:
    """All addresses in the long run, one of sixteen in the short one: others each time, so that many draw all."""
    return patterns if request.config.getoption("--long") else random.sample(patterns, len(patterns) // (2 * SHARE))


def test_every_route_lets_in_whom_its_row_says(everything: Everything, request: pytest.FixtureRequest) -> None:
    patterns = [  # what changes the session itself is in test_security.py
        pattern for pattern in dict.fromkeys(routes()) if not pattern.startswith(("login/", "logout/"))]
    rows = expected()
    assert {pattern for _, pattern in rows} == set(patterns), "a route is not in tests/dashboard/routes.txt"
    let_in, chosen = {}, drawn(request, patterns)
    for pattern in chosen:
        for method in METHODS:
            of_root = everything.mark(WHO[-1], method, pattern)
            if not of_root:
                continue  # the address has no such method
            marks = "".join(everything.mark(who, method, pattern) for who in WHO[:-1]) + of_root
            if len(marks) == len(WHO):
                let_in[method, pattern] = marks
                assert everything.mark(LEFT, method, pattern) == marks[0], (method, pattern)
    of_chosen = {route: marks for route, marks in rows.items() if route[1] in chosen}
    assert let_in == of_chosen, "a route is not in tests/dashboard/routes.txt, or lets in others"


def test_no_row_lets_another_team_in_where_it_is_a_teams(everything: Everything) -> None:
    """What names a dataflow, a proposal or a team is nobody's but its members'."""
    for (method, pattern), marks in expected().items():
        if "people" in pattern:
            assert marks[:-1].count("-") == len(WHO) - 1, (method, pattern)
        of_team = r"slug:slug>/(members|secrets|containment|defrag|rules|approval)"
        if re.search(rf"dataflow_id|proposal_id|{of_team}", pattern):
            assert marks[:5] == "-----", (method, pattern)
        if not pattern.startswith(("healthz", "readyz", "metrics", "api/openapi.json")):
            assert marks[0] == "-", (method, pattern)
        mine = (  # tokens and choices of one's own; leaving; what one says; a search, which the trail has and no more
            "api/estate/tasks/<str:task_id>/searches", "estate/tasks/<slug:task_id>/search",
            "api/tokens", "tokens/new", "teams/<slug:slug>/members/remove", "api/notice-choices",
            "alerts/notifications/set", "api/proposals/<uuidstr:proposal_id>/comments",
            "proposals/<uuid:proposal_id>/comments")
        assert "+" not in marks[5] or pattern in mine, "a viewer changes something"


def test_a_token_does_no_more_than_its_scope(everything: Everything, request: pytest.FixtureRequest) -> None:
    """One of an admin of both teams: what it may change, somebody with the role that its scope stands for may too."""
    people = {"submit": ("carla", "mo"), "approve": ("ana", "ben"), "admin": ("dev",)}
    changed = dict.fromkeys(TokenScope.values, 0)
    narrow = [row for row in expected().items() if row[0][1].startswith("api/") and "-" in row[1]]
    for (method, pattern), marks in drawn(request, narrow):
        for scope in TokenScope.values:
            mark = everything.mark(scope, method, pattern)
            allowed = any(marks[WHO.index(who)] != "-" for who in people.get(scope, ()))
            assert mark == "-" or (method == "get" and marks[WHO.index("dev")] != "-") or allowed, (
                scope, method, pattern, mark)
            changed[scope] += mark == "+"
    assert 0 == changed["read"] <= changed["submit"] <= changed["approve"] <= changed["admin"]
    if request.config.getoption("--long"):
        assert 0 < changed["submit"] < changed["approve"] < changed["admin"]


def test_every_topic_is_for_whom_it_is(world: World, everything: Everything) -> None:
    assert set(everything.topics) == {"estate", *_SUBJECTS}
    for name, topic in everything.topics.items():
        marks = ""
        for who in WHO:
            viewer = NOBODY if who == "anonymous" else viewer_of(world.users[who])
            try:
                build(viewer, topic)
                marks += "="
            except WeirError:
                marks += "-"
        assert marks == {"estate": "-========="}.get(name, "-----====="), name


def test_no_text_of_a_row_is_longer_than_its_column(everything: Everything) -> None:
    """SQLite keeps one that is; PostgreSQL refuses it, and with it the whole transaction."""
    columns = [
        (model, field.attname, field.max_length) for model in apps.get_models() for field in model._meta.concrete_fields
        if isinstance(field, models.CharField) and field.max_length]
    texts = [(model.__name__, name, most, text) for model, name, most in columns
             for text in set(model.objects.values_list(name, flat=True)) if text]
    assert len({model for model, *_ in texts}) > 20
    assert [(model, name, text) for model, name, most, text in texts if len(text) > most] == []
