"""Views that are shared: by those who look at the same moment, and by all parts of one page."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.operations import view as views
from dashboard.operations.health import findings
from dashboard.operations.view import SharedViews, one_look, view_for
from dashboard.teams.permissions import Viewer, viewer_of
from tests.dashboard.building import World, document, running


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes that were looked up, in their order."""
    scopes: list[str] = []
    look = views._view_for

    def noting(viewer: Viewer) -> views.View:
        scopes.append(viewer.scope)
        return look(viewer)

    monkeypatch.setattr(views, "_view_for", noting)
    return scopes


def test_those_who_may_know_the_same_share_a_view_for_a_moment(world: World, looked: list[str]):
    now_s = [100.0]
    shared = SharedViews(lambda: now_s[0])
    vera, carla, mo = (viewer_of(user) for user in (world.vera, world.carla, world.mo))
    assert shared.view_for(vera) is shared.view_for(carla) is not shared.view_for(mo)
    first = shared.view_for(vera)
    now_s[0] += views.SHARED_S
    assert shared.view_for(vera) is not first
    assert looked == [vera.scope, mo.scope, vera.scope]


def test_one_look_ends(world: World, looked: list[str]):
    vera, mo = viewer_of(world.vera), viewer_of(world.mo)
    with one_look():
        assert view_for(vera) is view_for(vera) is not view_for(mo)
    assert view_for(vera) is not view_for(vera)
    assert looked == [vera.scope, mo.scope, vera.scope, vera.scope]


def test_a_page_of_a_dataflow_looks_once(world: World, client: Client, looked: list[str]):
    record = running(world.carla, world.city, document("alpha"), world.ana)
    client.force_login(world.vera)
    looked.clear()
    assert client.get(f"/dataflows/{record.pk}/").status_code == 200
    assert looked == [viewer_of(world.vera).scope]


def test_findings_of_a_view_are_its_own(world: World):
    vera = viewer_of(world.vera)
    first, second = view_for(vera), view_for(vera)
    assert findings(first) == findings(first) and findings(first) is not findings(first)
    assert first != second, "each look is its own"
