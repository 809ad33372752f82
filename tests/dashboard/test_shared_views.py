"""Views that are shared: by those who look at the same moment, and by all parts of one page."""

from __future__ import annotations

from collections import Counter, namedtuple
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.catalog.kept_records import records_of
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import may_know_of
from dashboard.live.live_protocol import build
from dashboard.operations.diagnosis import health, probes
from dashboard.operations.diagnosis.health import findings
from dashboard.operations.live_view import estate_view as views
from dashboard.operations.live_view.estate_view import SharedViews, one_look, view_for
from dashboard.teams.models import Team
from dashboard.teams.permissions import NOBODY, Viewer, viewer_of
from tests.cases import each
from tests.dashboard.building import World, document, running


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes that were looked up, in their order."""
    scopes: list[str] = []
    look = views.OneLook.view_of

    def noting(at: views.OneLook, viewer: Viewer) -> views.View:
        scopes.append(viewer.scope)
        return look(at, viewer)

    monkeypatch.setattr(views.OneLook, "view_of", noting)
    return scopes


def test_those_who_may_know_the_same_share_a_view_for_a_moment(world: World, looked: list[str]):
    running(world.carla, world.city, document("hush", visibility="private", window=7), world.ana)
    looked.clear()
    now_s = [100.0]
    shared = SharedViews(lambda: now_s[0])
    vera, carla, mo = (viewer_of(user) for user in (world.vera, world.carla, world.mo))
    assert shared.view_for(vera) is shared.view_for(carla) is not shared.view_for(mo)
    first = shared.view_for(vera)
    now_s[0] += views.SHARED_S
    assert shared.view_for(vera) is not first
    assert looked == [vera.scope, mo.scope, vera.scope]


def test_whoever_asks_whether_the_site_is_ready_shares_a_view(
    world: World, client: Client, looked: list[str], monkeypatch: pytest.MonkeyPatch
):
    now_s = [100.0]
    monkeypatch.setattr(probes, "_VIEWS", SharedViews(lambda: now_s[0], for_s=1.0))
    running(world.carla, world.city, document("alpha"), world.ana)
    looked.clear()
    assert [client.get("/readyz").status_code for _ in range(9)] == [200] * 9 and len(looked) == 1
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: namedtuple("usage", "free")(1 << 20))
    assert client.get("/readyz").status_code == 503, "what makes it a 503 is looked at each time"
    now_s[0] += 1.0
    client.get("/readyz")
    assert len(looked) == 2


def test_one_look_ends(world: World, looked: list[str]):
    vera, mo = viewer_of(world.vera), viewer_of(world.mo)
    with one_look():
        assert view_for(vera) is view_for(vera) and view_for(mo) is view_for(vera), "they may know the same"
    assert view_for(vera) is not view_for(vera)
    assert looked == [vera.scope, mo.scope, vera.scope, vera.scope]


def test_a_page_of_a_dataflow_looks_once(world: World, client: Client, looked: list[str]):
    """And asks the database nothing twice."""
    record = running(world.carla, world.city, document("alpha"), world.ana)
    client.force_login(world.vera)
    client.get(f"/dataflows/{record.pk}/")  # reads the estate, which has changed
    looked.clear()
    with CaptureQueriesContext(connection) as captured:
        assert client.get(f"/dataflows/{record.pk}/").status_code == 200
    assert looked == [viewer_of(world.vera).scope]
    statements = Counter(query["sql"] for query in captured.captured_queries)
    assert [sql for sql, times in statements.items() if times > 1] == []


def test_findings_of_a_view_are_its_own(world: World):
    vera = viewer_of(world.vera)
    first, second = view_for(vera), view_for(vera)
    assert findings(first) == findings(first) and findings(first) is not findings(first)
    assert first != second, "each look is its own"


def test_teams_that_may_know_the_same_get_one_document(world: World):
    running(world.carla, world.city, document("open"), world.ana)
    shared = SharedViews()
    mo, outsider, carla = (viewer_of(world.users[who]) for who in ("mo", "outsider", "carla"))
    assert shared.view_for(mo) is shared.view_for(outsider) is not shared.view_for(carla)
    assert build(mo, "estate", look=shared.view_for) is build(outsider, "estate", look=shared.view_for)
    assert shared.view_for(carla).known_figures is shared.view_for(mo).known_figures
    running(world.carla, world.city, document("hush", visibility="private", window=7), world.ana)
    shared = SharedViews()
    assert shared.view_for(carla).known_figures is not shared.view_for(mo).known_figures


@each("who", ["carla", "vera", "ben", "mo", "outsider", "root"])
def test_a_look_for_several_shows_each_what_it_would_alone(world: World, who: str):
    running(world.carla, world.city, document("open"), world.ana)
    running(world.carla, world.city, document("hush", visibility="private", window=7), world.ana)
    shared = SharedViews()
    for other in world.users.values():
        shared.view_for(viewer_of(other))
    viewer = viewer_of(world.users[who])
    alone, among_others = view_for(viewer), shared.view_for(viewer)
    assert among_others.records.keys() == alone.records.keys()
    assert (among_others.tasks, among_others.own_ids) == (alone.tasks, alone.own_ids)
    assert [f.id for f in among_others.fragments()] == [f.id for f in alone.fragments()]
    for other in world.users.values():
        build(viewer_of(other), "estate", look=shared.view_for)
    assert build(viewer, "estate", look=shared.view_for) == build(viewer, "estate")


def test_records_are_made_anew_only_where_their_rows_are_others(world: World):
    records = [running(world.carla, world.city, document(name), world.ana) for name in ("one", "two")]
    ids = [str(record.pk) for record in records]
    changes = [
        lambda: DataflowRecord.objects.filter(pk=ids[0]).update(status="paused"),
        lambda: DataflowRecord.objects.filter(pk=ids[1]).update(latency_chosen=[]),
        lambda: Team.objects.filter(pk=world.city.pk).update(name="Town"),
        lambda: DataflowRecord.objects.filter(pk=ids[1]).update(visibility="private")]
    before = records_of(ids)
    assert all(again is record for again, record in zip(records_of(ids), before, strict=True))
    for change in changes:
        change()
        after = records_of(ids)
        assert all(record is not former for record in after for former in before)
        read = DataflowRecord.objects.filter(pk__in=ids).select_related("team")
        assert [(vars(record) | {"_state": 0}, vars(record.team) | {"_state": 0}) for record in after] == [
            (vars(record) | {"_state": 0}, vars(record.team) | {"_state": 0}) for record in read]
        before = after
    assert [str(record.pk) for record in records_of(ids[:1])] == ids[:1] and not records_of([])


def test_nobody_may_know_of_a_record(world: World):
    record = running(world.carla, world.city, document("open"), world.ana)
    assert not may_know_of(NOBODY, record) and may_know_of(viewer_of(world.outsider), record)


def test_what_does_not_depend_on_who_looks_is_read_once(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries
):
    running(world.carla, world.city, document("open"), world.ana)
    readings = []
    monkeypatch.setattr(views.jobs, "read_live", lambda *_: readings.append(1) or views.jobs.LiveReading())
    shared, (vera, mo) = SharedViews(), (viewer_of(world.vera), viewer_of(world.mo))
    first = shared.view_for(vera)
    assert not readings, "who only wants to know what there is does not ask the broker"
    with django_assert_num_queries(0):
        second = shared.view_for(mo)
    assert first.reading is second.reading and len(readings) == 1
    (fragment,) = first.fragments()
    assert first.fragment_report(fragment) is second.fragment_report(fragment)
    assert replace(first, own_ids=frozenset()).worked is not first.worked, "a copy may be of something else"
