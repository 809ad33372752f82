"""The audit trail's page: of a person, of some days, and as a file."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.audit.audit_archive import ARCHIVED
from dashboard.audit.models import AuditEntry
from dashboard.audit.selectors import AuditFilter, as_csv, entries_for, search
from dashboard.teams.models import Role
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_role
from tests.dashboard.building import World, document, running

from .conftest import ClientOf
from .markup import Markup


@pytest.fixture
def trail(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_trail_is_chosen_by_person_and_by_day(world: World, trail: None) -> None:
    viewer = viewer_of(world.vera)
    everything = list(search(viewer, AuditFilter()))
    assert {entry.actor for entry in search(viewer, AuditFilter(person="ana"))} == {world.ana}
    assert {entry.actor for entry in search(viewer, AuditFilter(person="Weir"))} == {None}
    today = timezone.now().date()
    assert list(search(viewer, AuditFilter(first=today, last=today))) == everything != []
    assert not search(viewer, AuditFilter(first=today + timedelta(days=1))).exists()
    assert not search(viewer, AuditFilter(last=today - timedelta(days=1))).exists()


def test_the_file_has_what_the_page_has_and_no_formula(
    world: World, trail: None, client_of: ClientOf
) -> None:
    AuditEntry.objects.create(verb="=1+1", subject_type="x", subject_id="＠y", team=world.city)
    client = client_of("vera")
    page = Markup(client.get("/audit/?person=ana&q=proposal").text)
    [link] = [element.attributes["href"] for element in page.having("data-export")]
    answer = client.get(link.replace("&amp;", "&"))
    assert answer["Content-Type"].startswith("text/csv") and "attachment" in answer["Content-Disposition"]
    rows = rows_of(answer.text)
    assert rows and {row["actor"] for row in rows} == {"ana"} and all("proposal" in row["verb"] for row in rows)
    [row] = rows_of(as_csv(search(viewer_of(world.vera), AuditFilter(words=("=1+1",)))))
    assert (row["verb"], row["subject_id"], row["actor"]) == ("'=1+1", "'＠y", "Weir")


def test_others_get_nothing_of_it_and_a_wrong_day_is_said(world: World, trail: None, client_of: ClientOf) -> None:
    assert rows_of(client_of("mo").get("/audit/export.csv").text) == []
    for address in ("/audit/?from=yesterday", "/audit/export.csv?to=2026-02-31"):
        assert client_of("vera").get(address).status_code == 400


def test_what_left_the_database_is_said(world: World, trail: None, client_of: ClientOf) -> None:
    client = client_of("vera")
    assert not Markup(client.get("/audit/").text).having("data-archived-until")
    for month in ("2024-01", "2024-02"):
        AuditEntry.objects.create(
            verb=ARCHIVED, subject_type="auditentry", subject_id="1", details={"file": f"{month}.jsonl.gz"})
    [shown] = Markup(client.get("/audit/").text).having("data-archived-until")
    assert shown.text == "2024-02"


def test_the_estate_lists_roles_that_people_set_and_none_that_set_up_did(world: World, client_of: ClientOf) -> None:
    set_role(user=world.vera, team=world.city, role=Role.ENGINEER)
    [*_, newest] = entries_for(viewer_of(world.ana)).filter(verb="team.set_role")[:1]
    assert newest.actor is None and "set a role" not in client_of("ana").get("/").text
    set_role(user=world.vera, team=world.city, role=Role.VIEWER, actor=world.dev)
    assert "set a role" in client_of("ana").get("/").text
