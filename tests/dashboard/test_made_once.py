"""What a test is given again is what it would have made itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.teams.models import Team
from tests import made_once
from tests.dashboard.building import (
    World,
    approved,
    document,
    dynamic,
    enacted,
    make_world,
    planned,
    removal_planned,
    running,
    taken_back,
)
from tests.dashboard.policies import in_force, switched
from tests.dashboard.rearranging import paused
from tests.dashboard.schedules import scheduled
from tests.pages.scheduling import measured

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")
DRAWN = re.compile(r"\b[0-9a-f]{16}\b|[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")  # ids, and digests of them


def estate(world: World) -> list[Any]:
    """Teams that share, a plan that waits, one that is taken back, schedules, policies."""
    measured(world, slots=16)
    linear = scheduled(world)
    first = running(world.carla, world.city, document("traffic"), world.ana)
    shared = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    removal = enacted(approved(removal_planned(world.carla, first), world.ana))
    ways = running(world.carla, world.city, switched("air", visibility="private"), world.ana)
    return [linear, shared, removal, in_force(world, ways), paused(world, ways),
            planned(world.carla, world.city, dynamic("later"))]


def rows() -> dict[str, list[str]]:
    """All that the database holds, but for ids that were drawn and for when it was written."""
    this_hour = str(int(timezone.now().timestamp()))[:-4]

    def lasting(row: tuple) -> str:
        return DRAWN.sub("drawn", re.sub(rf"\b{this_hour}\d{{4}}\b", "then", MOMENT.sub(
            "then", " | ".join(map(str, row)))))

    tables = connection.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        table: sorted(map(lasting, connection.connection.execute(f'SELECT * FROM "{table}"')))
        for (table,) in tables}


def answers(made: list[Any]) -> list[tuple]:
    return [(type(record), record.status, getattr(record, "dataflow", record).name) for record in made]


def test_an_estate_that_is_repeated_is_the_one_that_is_made(world: World) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("it is made again")

    made_once.begin(anew=True)
    with taken_back():
        anew, rows_anew = answers(estate(world)), rows()
    made_once.begin(anew=False)
    with taken_back():
        made = estate(world)
    begun = timezone.now()
    made_once.begin(anew=False)  # as another test begins
    with taken_back():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(made_once, "_noted", fail)
            repeated = estate(world)
        assert answers(repeated) == answers(made) == anew
        assert [record.pk for record in repeated] == [record.pk for record in made]
        times = [*AuditEntry.objects.order_by("pk").values_list("at", flat=True)][1:]  # the first is the world's
        assert times == sorted(times) and begun < times[0] < times[-1] < timezone.now()
        for record in repeated:
            created = record.created
            record.refresh_from_db()
            assert record.created == created > begun
        assert answers(repeated) == anew
        repeated_rows = rows()
        others = {name: {*before} ^ {*repeated_rows[name]} for name, before in rows_anew.items()}
        assert {name: rest for name, rest in others.items() if rest} == {}


def test_what_begins_otherwise_is_made_anew(world: World, monkeypatch: pytest.MonkeyPatch, settings) -> None:
    made: list[str] = []

    @made_once.made_once
    def team(name: str) -> Team:
        made.append(name)
        return Team.objects.create(slug=name, name=name.title())

    def another_setting() -> None:
        settings.DEFRAGMENT_RATIO = 7.5

    def is_made(name: str = "bridges", before: Callable[[], object] = lambda: None) -> bool:
        made.clear()
        with taken_back():
            before()
            given = team(name)
            assert Team.objects.get(slug=name) == given
        return bool(made)

    assert is_made() and not is_made() and is_made("tunnels") and not is_made("tunnels") and not is_made()
    assert is_made(before=lambda: Team.objects.filter(slug="city").update(name="Town"))
    assert is_made(before=lambda: team("tunnels")) and not is_made(before=lambda: team("tunnels"))
    assert is_made(before=another_setting) and not is_made()
    settings.DEFRAGMENT_RATIO = 7.25
    assert is_made() and not is_made()
    monkeypatch.setattr(jobs, "task_types", lambda: {})
    assert is_made() and not is_made()
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    assert not is_made(), "it reads nothing of what runs"
    settings.REDIS_URL = "redis://127.0.0.1:2/0"
    assert is_made() and is_made(), "it may leave something in the broker"


def test_who_reads_what_a_test_replaced_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []

    @made_once.made_once
    def asking() -> Team:
        made.append(jobs.read_live((), {}).available)
        return Team.objects.create(slug="asking", name="Asking")

    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(available=len(made) % 2 == 0))
    for _ in range(3):
        with taken_back():
            asking()
    assert made == [True, False, True]


def test_jobs_are_sent_again(world: World, sent: list, django_capture_on_commit_callbacks: Callable) -> None:
    def jobs_of() -> list[tuple[str, dict[str, str]]]:
        sent.clear()
        with django_capture_on_commit_callbacks(execute=True):
            running(world.carla, world.city, document("sent"), world.ana)
        return [*sent]

    with taken_back():
        first = jobs_of()
    with taken_back():
        assert jobs_of() == first != []


def test_a_commit_is_never_repeated(transactional_db: None) -> None:
    before = dict(made_once.KEPT)
    make_world()
    assert before == made_once.KEPT
