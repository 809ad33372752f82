"""Near misses on the site: what is offered to whom, and one click that adopts it."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard import jobs
from dashboard.approvals.near_miss_search import near_misses_in, near_misses_of
from dashboard.approvals.services import adopt_near_miss, prepare_proposal
from dashboard.approvals.services.adopting import NoSuchNearMiss
from dashboard.audit.models import AuditEntry
from dashboard.catalog.selectors import current_version
from dashboard.operations.estate_store.sibling_rows import StoredSiblings
from dashboard.operations.models import RunningTaskRow
from dashboard.plans.selectors import plan_of
from scheduler.model.errors import PermissionDenied
from scheduler.model.task_types import TaskTypes
from scheduler.reuse.siblings import kin_of
from workers.library.registry import task_types

from .building import WAYS, approved, document, dynamic, enacted, planned, running
from .test_keyed_schedules import averages, keyed, mean, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def offered(world):
    """A window of 60 runs; one of 61 is proposed."""
    running(world.carla, world.city, document("old", window=60), world.ana)
    return planned(world.carla, world.city, document("new", window=61))


def test_it_says_what_differs_and_what_it_saves(offered):
    [miss] = near_misses_of(offered)
    assert miss.reused == ("average",) and miss.differences[0].text == "window 60 instead of 61"
    assert miss.cores_saved > 0 and miss.money_per_hour_saved > 0


def test_one_click_makes_a_new_version_in_place_of_the_proposal(world, offered):
    [miss] = near_misses_of(offered)
    before = current_version(offered.dataflow).text
    adopted = prepare_proposal(proposal_id=adopt_near_miss(actor=world.carla, proposal_id=offered.pk, key=miss.key).pk)
    offered.refresh_from_db()
    assert (offered.status, adopted.status, adopted.plan.version) == ("cancelled", "pending", 2)
    after = current_version(adopted.dataflow).text
    assert after == before.replace('"window": 61', '"window": 60'), "the text stays as its author wrote it"
    assert len(plan_of(adopted.plan).reused) == 3
    entry = AuditEntry.objects.get(verb="proposal.adopt_near_miss")
    assert "window 60 instead of 61" in entry.details["adopted"]
    assert near_misses_of(adopted) == ()


def test_a_divided_task_is_offered_and_shared_with_all_of_its_bundles(keyed):  # noqa: F811
    record = run(keyed, 50)
    before = mean(record)
    document_near = json.loads(averages()) | {"name": "near"}
    [window] = [parameter for parameter in task_types()["block_average"].parameters if parameter.name == "window"]
    document_near["tasks"][2]["config"] = {"window": window.default + 1}
    proposal = planned(keyed.carla, keyed.city, json.dumps(document_near))
    [miss] = near_misses_of(proposal)
    assert miss.reused[0] == "mean" and miss.cores_saved > 0
    adopted = adopt_near_miss(actor=keyed.carla, proposal_id=proposal.pk, key=miss.key)
    other = enacted(approved(prepare_proposal(proposal_id=adopted.pk), keyed.ana)).dataflow
    assert len(before.bundles) > 2 and mean(other).id == before.id
    assert mean(other).bundles == before.bundles, "no key changes hands"


def few(name):
    """The chain of `dynamic` with its second alternate alone."""
    whole = json.loads(dynamic(name))
    del whole["tasks"][2]["alternates"]
    whole["tasks"][2] |= {"type": WAYS[1]["type"], "config": WAYS[1]["config"]}
    return json.dumps(whole)


def test_an_alternate_of_what_runs_is_offered_and_adopted(world, tmp_path):
    running(world.carla, world.city, dynamic("old"), world.ana)
    mine = planned(world.carla, world.city, few("new"))
    [miss] = near_misses_of(mine)
    assert miss.text.startswith("alternates all, few (few is this task) instead of one way in work would reuse 1 more")
    client = Client()
    client.force_login(world.carla)
    page = client.get(f"/proposals/{mine.pk}/").content.decode()
    assert "few is this task" in page and "run beside each other" in page
    [offer] = client.get(f"/api/proposals/{mine.pk}/near-misses").json()
    assert offer["why_beside"] == miss.why_beside and offer["differences"][0]["running"]["alternates"]
    file, out = tmp_path / "also.json", StringIO()
    file.write_text(few("also"))
    call_command("submit", str(file), "--as", "carla", stdout=out)
    assert f"Near miss: {miss.text}. {miss.why_beside}" in out.getvalue()

    adopted = prepare_proposal(proposal_id=adopt_near_miss(actor=world.carla, proposal_id=mine.pk, key=miss.key).pk)
    assert (adopted.status, len(plan_of(adopted.plan).reused)) == ("pending", 3)
    [taken] = json.loads(current_version(adopted.dataflow).text)["tasks"][2:3]
    assert [way["name"] for way in taken["alternates"]] == ["all", "few"] and "type" not in taken


def test_an_alternate_that_runs_by_itself_is_offered_and_adopted(world):
    running(world.carla, world.city, few("old"), world.ana)
    mine = planned(world.carla, world.city, dynamic("new"))
    [miss] = near_misses_of(mine)
    assert miss.text.startswith("alternate few alone instead of 2 alternates in work would reuse 1 more")
    adopted = prepare_proposal(proposal_id=adopt_near_miss(actor=world.carla, proposal_id=mine.pk, key=miss.key).pk)
    assert (adopted.status, len(plan_of(adopted.plan).reused)) == ("pending", 3)


def test_what_is_no_longer_offered_changes_nothing(world, offered):
    with pytest.raises(NoSuchNearMiss):
        adopt_near_miss(actor=world.carla, proposal_id=offered.pk, key="0" * 16)
    offered.refresh_from_db()
    assert offered.status == "pending" and offered.dataflow.version == 1


def test_only_who_may_submit_for_the_team_adopts(world, offered):
    [miss] = near_misses_of(offered)
    for other in (world.vera, world.ben):
        with pytest.raises(PermissionDenied):
            adopt_near_miss(actor=other, proposal_id=offered.pk, key=miss.key)


def test_another_teams_private_tasks_are_never_offered(world):
    running(world.mo, world.mobility, document("hidden", window=60, visibility="private"), world.ben)
    mine = planned(world.carla, world.city, document("new", window=61))
    assert near_misses_of(mine) == ()
    proposal = planned(world.mo, world.mobility, document("also-hidden", window=61, visibility="private"))
    assert len(near_misses_of(proposal)) == 1
    assert near_misses_in(world.city, document("later", window=61, visibility="private")) == []


def test_siblings_are_found_by_their_column(world):
    running(world.carla, world.city, document("old", window=60), world.ana)
    running(world.carla, world.city, document("older", window=20), world.ana)
    row = RunningTaskRow.objects.get(type="block_average", config__window=60)
    assert {sibling.config["window"] for sibling in StoredSiblings().siblings(row.kin)} == {20, 60}
    from dashboard.operations.estate_store.estate_reader import task_of
    assert all(row.kin == kin_of(task_of(row)) for row in RunningTaskRow.objects.all())


def test_statements_do_not_grow_with_what_is_looked_at(world, django_assert_max_num_queries):
    for window in range(55, 65):
        running(world.carla, world.city, document(f"old-{window}", window=window), world.ana)
    proposal = planned(world.carla, world.city, document("new", window=65))
    with django_assert_max_num_queries(12):
        misses = near_misses_of(proposal)
    assert [miss.differences[0].running for miss in misses] == [64, 63, 62, 61, 60]


def test_where_a_task_type_is_gone_nothing_is_offered_and_the_page_still_shows(world, offered, monkeypatch):
    types = jobs.task_types()
    left = TaskTypes([task_type for task_type in types.values() if task_type.name != "block_average"])
    monkeypatch.setattr(jobs, "task_types", lambda: left)
    assert near_misses_of(offered) == ()
    client = Client()
    client.force_login(world.carla)
    assert client.get(f"/proposals/{offered.pk}/").status_code == 200


def test_the_api_offers_and_adopts(world, offered):
    client = Client()
    client.force_login(world.carla)
    [miss] = client.get(f"/api/proposals/{offered.pk}/near-misses").json()
    assert miss["differences"][0]["text"] == "window 60 instead of 61" and miss["tasks"] == ["average"]
    answer = client.post(
        f"/api/proposals/{offered.pk}/adopt", {"key": miss["key"]}, content_type="application/json")
    assert answer.status_code == 201 and answer.json()["status"] == "computing"
    again = client.post(f"/api/proposals/{offered.pk}/adopt", {"key": miss["key"]}, content_type="application/json")
    assert (again.status_code, again.json()["code"]) == (409, "no_such_near_miss")


def test_a_document_that_is_being_written_gets_offers_with_its_text_changed(world):
    running(world.carla, world.city, document("old", window=60), world.ana)
    client = Client()
    client.force_login(world.carla)
    text = document("draft", window=61)
    [miss] = client.post(
        "/api/near-misses", {"text": text, "team": "city"}, content_type="application/json").json()
    assert json.loads(miss["text"]) == json.loads(text.replace('"window": 61', '"window": 60'))
    assert client.post("/api/near-misses", {"text": text, "team": "mobility"},
                       content_type="application/json").status_code == 404


def test_the_page_shows_it_to_all_and_the_button_to_who_may(world, offered):
    client = Client()
    for user, may in ((world.carla, True), (world.vera, False)):
        client.force_login(user)
        page = client.get(f"/proposals/{offered.pk}/").content.decode()
        assert "window 60 instead of 61" in page and ("/adopt" in page) == may
    client.force_login(world.carla)
    [miss] = near_misses_of(offered)
    answer = client.post(f"/proposals/{offered.pk}/adopt", {"key": miss.key}, follow=True)
    assert "Adopted as version 2" in answer.content.decode()
