"""Queries are called by their tasks wherever people meet them, and never by what a viewer may not know."""

from __future__ import annotations

import time

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.history import query_lines
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.query_names import OF_OTHERS, name_of_query, names_of_queries
from dashboard.operations.models import SlowQuery
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import DATAFLOW, QUERY, STREAM, Annotation
from tests.dashboard.building import World, document, running
from tests.dashboard.test_health import observe
from tests.pages.markup import assert_sound

NOW_S = int(time.time())


def test_a_query_is_called_by_its_tasks_also_once_another_has_its_place(world: World) -> None:
    record = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    [fragment] = load_estate().fragments.values()
    query_lines.store({fragment.id: ["f900-0"]}, at_s=NOW_S)
    text = f"f900-1 and {fragment.id} wait for {fragment.tasks[1]}: weir:chan:{fragment.id}.0, x/{fragment.id}/offsets."
    of_carla, foreign = view_for(viewer_of(world.carla)), view_for(viewer_of(world.mo))

    name = "sense → … → out of hush"
    assert name_of_query(of_carla, fragment) == name
    assert names_of_queries(of_carla, [fragment.id, "f900-0", "f901-0"]) == {
        fragment.id: name, "f900-0": name, "f901-0": "f901-0"}
    assert of_carla.in_words(text) == (
        f"f900-1 and {name} wait for parse of hush: weir:chan:{fragment.id}.0, x/{fragment.id}/offsets.")
    assert name_of_query(foreign, fragment) == OF_OTHERS
    assert "hush" not in foreign.in_words(text) + "".join(names_of_queries(foreign, ["f900-0"]).values())

    parent, child = fragment.tasks[:2]
    DatabaseHistory().annotate([
        Annotation(NOW_S, "joined_late", QUERY, fragment.id, ""),
        Annotation(NOW_S, "fragment_failed", QUERY, "f900-0", f"{fragment.id} failed."),
        Annotation(NOW_S, "alarm", STREAM, f"{parent}>{child}", "It is full.")])
    subjects = {mark.what: (mark.subject, mark.text) for kind, subject in (
        (DATAFLOW, str(record.pk)), (STREAM, f"{parent}>{child}")) for mark in marks_of(
            viewer_of(world.carla), kind, subject, begin_s=NOW_S - 5, end_s=NOW_S + 5)}
    assert subjects == {
        "joined_late": (name, ""), "fragment_failed": (name, f"{name} failed."),
        "alarm": ("sense of hush → parse of hush", "It is full.")}


def test_what_is_wrong_of_a_query_leads_to_its_page_and_shows_no_id(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    [fragment] = load_estate().fragments.values()
    SlowQuery.objects.create(
        fragment=fragment.id, since=timezone.now(), at_ms=1, counts={}, slow=fragment.tasks[2], why_not="it is a sink")
    observe(monkeypatch, worker=True)
    client.force_login(world.carla)
    page = client.get("/")
    assert_sound(page, "estate")
    shown = page.text.partition('id="health"')[2].partition("</section>")[0]
    assert f"/estate/queries/{fragment.id}" in shown and f">{fragment.id}" not in shown
