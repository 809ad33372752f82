"""A private dataflow is not there for others: no page, no list, no number, no error that differs."""

from __future__ import annotations

import json
import time

import pytest
from django.test import Client

from dashboard.approvals import selectors as approvals
from dashboard.audit.selectors import entries_for
from dashboard.catalog import selectors as catalog
from dashboard.history.history_store import DatabaseHistory
from dashboard.live.live_protocol import build
from dashboard.operations import selectors as operations
from dashboard.teams.permissions import NOBODY, viewer_of
from scheduler.history.series import Series
from scheduler.model.errors import NotFound
from tests.cases import each
from tests.dashboard.building import World, document, planned, running

INSIDERS = ("carla", "ana", "vera", "dev", "root")
OUTSIDERS = ("ben", "mo", "outsider")


@pytest.fixture
def secret(world: World):
    """A private dataflow that runs, one that waits for review, and a shared one."""
    running(world.carla, world.city, document("open"), world.ana)
    record = running(world.carla, world.city, document("hush", visibility="private", window=7), world.ana)
    planned(world.carla, world.city, document("hush-later", visibility="private", window=8))
    return record


@each("who", [*INSIDERS, *OUTSIDERS])
def test_lists_numbers_and_records(world: World, secret, who: str):
    viewer, inside = viewer_of(world.users[who]), who in INSIDERS
    assert catalog.dataflows(viewer).count() == (3 if inside else 1)
    assert catalog.dataflows(viewer, search="hush").exists() is inside
    assert approvals.proposals(viewer).count() == (3 if inside else 1)
    estate = operations.live_estate(viewer)
    assert estate["counts"]["submitted"] == (2 if inside else 1)
    assert estate["counts"]["running_tasks"] == (8 if inside else 4)
    assert estate["counts"]["without_reuse"] == (8 if inside else 4)
    assert sum(slot["fragments"] for slot in estate["slots"].values()) == (2 if inside else 1)
    assert ("hush" in json.dumps(estate)) is inside
    for read in (
        lambda: catalog.dataflow(viewer, secret.pk), lambda: operations.live_dataflow(viewer, secret.pk),
        lambda: operations.outputs(viewer, secret.pk), lambda: operations.dataflow_history(viewer, secret.pk),
        lambda: approvals.proposal(viewer, secret.proposals.get().pk), lambda: build(viewer, f"dataflow:{secret.pk}"),
        lambda: build(viewer, f"proposal:{secret.proposals.get().pk}"),
    ):
        if inside:
            read()
        else:
            with pytest.raises(NotFound):
                read()


def test_nobody_reads_nothing(world: World, secret):
    assert not catalog.dataflows(NOBODY).exists()
    assert not approvals.proposals(NOBODY).exists()
    for topic in ("estate", f"dataflow:{secret.pk}"):
        with pytest.raises(NotFound):
            build(NOBODY, topic)


@pytest.mark.parametrize("who", OUTSIDERS)
def test_the_audit_trail_of_other_teams_is_not_read(world: World, secret, who: str):
    ids = {entry.subject_id for entry in entries_for(viewer_of(world.users[who]))}
    assert str(secret.pk) not in ids
    assert str(secret.pk) in {entry.subject_id for entry in entries_for(viewer_of(world.vera))}


def test_the_estates_history_sums_what_the_viewer_may_know_of(world: World, secret):
    history, now_s = DatabaseHistory(), int(time.time())
    history.append(now_s, {
        Series("estate", scope, "events_in_per_s"): rate
        for scope, rate in (("", 10.0), ("city", 5.0), ("mobility", 3.0))})
    history.flush()
    rates = {
        who: operations.estate_history(viewer_of(world.users[who]))["events_in_per_s"]
        for who in ("vera", "mo", "dev", "root", "outsider")}
    assert rates == {"vera": [15.0], "mo": [13.0], "dev": [18.0], "root": [18.0], "outsider": [10.0]}


@each("way", [
    "/api/dataflows/{dataflow}", "/api/dataflows/{dataflow}/live", "/api/dataflows/{dataflow}/outputs",
    "/api/dataflows/{dataflow}/outputs/out", "/api/dataflows/{dataflow}/history", "/api/proposals/{proposal}",
    "/live/snapshot?topic=dataflow:{dataflow}", "/live/snapshot?topic=proposal:{proposal}",
    "/dataflows/{dataflow}/", "/proposals/{proposal}/",
])
def test_hidden_and_absent_look_the_same_over_http(world: World, secret, way: str):
    absent = "00000000-0000-4000-8000-000000000000"
    for who in OUTSIDERS:
        client = Client(headers={"accept": "application/json"})
        client.force_login(world.users[who])
        hidden = client.get(way.format(dataflow=secret.pk, proposal=secret.proposals.get().pk))
        missing = client.get(way.format(dataflow=absent, proposal=absent))
        assert (hidden.status_code, hidden.json()) == (404, missing.json()), who


def test_private_tasks_are_shared_within_the_team_only(world: World):
    text = document("hush", visibility="private")
    running(world.carla, world.city, text, world.ana)
    running(world.mo, world.mobility, text, world.ben)
    viewer = viewer_of(world.root)
    counts = operations.live_estate(viewer)["counts"]
    assert {"submitted": 2, "running_tasks": 8, "without_reuse": 8, "queries": 2}.items() <= counts.items()


def test_who_shares_a_task_is_named_to_those_who_may_know(world: World):
    running(world.carla, world.city, document("open"), world.ana)
    other = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    tasks = operations.live_dataflow(viewer_of(world.vera), other.pk)["tasks"]
    assert [user["name"] for user in tasks["parse"]["shared_with"]] == ["open"]
    assert tasks["average"]["shared_with"] == []
