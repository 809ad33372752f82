"""What forms do: submit, review, remove, members, tokens; what is refused, and that nothing private shows."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import ApiToken, Membership, Role, Team
from tests.dashboard.building import PASSWORD, World, approved, document, enacted, held_to_estate, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup


def test_a_document_is_submitted_and_its_proposal_shown(world: World, client_of: ClientOf) -> None:
    response = client_of("carla").post(
        "/dataflows/new", {"text": document("traffic"), "format": "json", "team": "city"}, follow=True)
    proposal = Proposal.objects.get()
    assert response.redirect_chain == [(f"/proposals/{proposal.pk}/", 302)]
    page = Markup(response.text)
    assert "computing" in page.notes and page.flashes == ["submitted"]


def test_a_page_without_a_plan_knows_that_it_shows_none(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan may be frozen while the page is made: the page must not pass for one that shows it."""
    proposal = planned(world.carla, world.city, document("traffic"))
    shown = client_of("carla").get(f"/proposals/{proposal.pk}/").text
    assert f'data-plan="{proposal.plan.digest}"' in shown
    monkeypatch.setattr("dashboard.pages.views.proposals.difference", lambda *_: None)
    assert 'data-plan=""' in client_of("carla").get(f"/proposals/{proposal.pk}/").text


def test_a_document_with_problems_comes_back_with_all_of_them(world: World, client_of: ClientOf) -> None:
    text = "name: x\ntasks:\n  - {id: a, type: urban_sensig}\n  - {id: a, type: output}\nstreams: []\n"
    response = client_of("carla").post("/dataflows/new", {"text": text, "format": "yaml", "team": "city"})
    assert response.status_code == 422
    page = Markup(response.text)
    assert "3" in page.values("data-line") and all(page.values("data-column"))
    assert "urban_sensing" in response.context["problems"][0].remedy
    [editor] = page.every("textarea")
    assert "urban_sensig" in editor.text, "what was typed is kept"
    assert not DataflowRecord.objects.exists()


@pytest.mark.parametrize(("name", "team"), [("vera", "city"), ("carla", "mobility"), ("outsider", "city")])
def test_only_engineers_submit_for_their_team(name: str, team: str, client_of: ClientOf) -> None:
    response = client_of(name).post("/dataflows/new", {"text": document("traffic"), "format": "json", "team": team})
    assert response.status_code == 404
    assert not DataflowRecord.objects.exists()


def test_the_editor_is_told_what_a_document_would_reuse(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    form = {"text": document("jams", window=20), "format": "json", "team": "mobility"}
    answer = client_of("mo").post("/dataflows/preview", form, headers={"accept": "application/json"})
    told_back = answer.json()
    assert (told_back["reused"], told_back["tasks"]) == (2, 4)
    assert Markup(told_back["html"]).values("data-source") == [str(DataflowRecord.objects.get(name="traffic").pk)]
    marks = {task["id"]: (task["marks"], task["note"]) for task in told_back["graph"]["tasks"]}
    assert marks["parse"] == (["shared"], "with traffic")
    assert marks["average"] == (["starts"], "")
    for name, changed, status in (("mo", {"text": "name: x"}, 422), ("vera", {}, 404), ("mo", {"team": "city"}, 404)):
        refused = client_of(name).post("/dataflows/preview", form | changed, headers={"accept": "application/json"})
        assert refused.status_code == status
        assert refused.json()["message"]


def test_whoever_cannot_submit_is_told_what_is_missing(client_of: ClientOf) -> None:
    viewer, engineer = client_of("vera"), client_of("carla")
    page = viewer.get("/dataflows/new").text
    assert "may-not-submit" in Markup(page).notes and "Ask dev (City) for it." in page
    assert "may-not-submit" not in Markup(engineer.get("/dataflows/new").text).notes
    for path in ("/", "/dataflows/"):
        assert ['data-place="new"' in client.get(path).text for client in (viewer, engineer)] == [False, True], path


def test_another_person_approves_and_it_is_enacted(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    author, approver = client_of("carla"), client_of("ana")
    approve = f"/proposals/{proposal.pk}/approve"
    assert not Markup(author.get(f"/proposals/{proposal.pk}/").text).submits(approve)
    assert Markup(approver.get(f"/proposals/{proposal.pk}/").text).submits(approve)
    form = {"digest": proposal.plan.digest, "comment": ""}
    author.post(approve, form)
    assert Proposal.objects.get().status == "pending"
    page = Markup(approver.post(approve, form, follow=True).text)
    assert Proposal.objects.get().status == "executing"
    assert "executing" in page.statuses and page.flashes == ["executing"]


def test_a_proposal_names_who_can_approve_and_leads_on_when_it_is_done(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    address, dataflow = f"/proposals/{proposal.pk}/", f"/dataflows/{proposal.dataflow_id}/"
    page = Markup(client_of("ana").get(address).text)
    assert page.values("data-approvers") == ["abe ana dev"], "who may, by name; not the author"
    review = page.one("action", f"{address}approve")
    comment, approve = review.one("name", "comment"), review.having("formnovalidate")
    assert "required" in comment.attributes and len(approve) == 1, "a rejection without a comment stays on the page"
    positions = [page.elements.index(element) for element in (review, page.one("data-graph"))]
    assert positions == sorted(positions), "the review stands above the graph"

    def leads_on() -> int:
        actions = Markup(client_of("ana").get(address).text).one("id", "actions")
        return len(actions.having("href", dataflow))

    assert not leads_on()
    enacted(approved(proposal, world.ana))
    assert leads_on() == 1


def test_another_digest_than_the_plans_is_refused_with_what_to_do(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    response = client_of("ana").post(f"/proposals/{proposal.pk}/approve", {"digest": "0" * 64}, follow=True)
    assert Markup(response.text).flashes == ["digest_mismatch"]
    assert Proposal.objects.get().status == "pending"


def test_a_pause_and_a_step_of_defragmentation_are_proposed_from_the_page(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    for way in ("defragment", "pause"):
        page = Markup(client.post(f"/dataflows/{record.pk}/rearrange/{way}", follow=True).text)
        newest = Proposal.objects.latest("created")
        assert newest.plan.kind == way and page.flashes == [way]
        assert page.every("h1")[0].attributes["data-kind"] == way
        row = Markup(client.get("/proposals/").text).one("data-proposal", str(newest.pk))
        assert row.attributes["data-kind"] == way and row.links(f"/proposals/{newest.pk}/")
    assert client.post(f"/dataflows/{record.pk}/rearrange/vanish").status_code == 404
    page = Markup(client.post(f"/dataflows/{record.pk}/rearrange/resume", follow=True).text)
    assert page.flashes == ["invalid_transition"]
    assert client_of("vera").get(f"/dataflows/{record.pk}/").text.count("rearrange") == 0


def test_how_to_join_is_chosen_on_the_pages(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    form = {"text": document("mine"), "format": "json", "team": "city", "fresh": "1", "begin": "soon"}
    response = client.post("/dataflows/new", form)
    assert response.status_code == 422 and Markup(response.text).values("data-error") == ["invalid_beginning"]
    client.post("/dataflows/new", form | {"begin": "oldest"})
    proposal = Proposal.objects.latest("created")
    prepare_proposal(proposal_id=proposal.pk)
    assert Markup(client.get(f"/proposals/{proposal.pk}/").text).values("data-joining") == ["fresh"]
    client.post(f"/proposals/{proposal.pk}/joining", {"fresh": "0", "begin": "now"})
    prepare_proposal(proposal_id=proposal.pk)
    joining = Markup(client.get(f"/proposals/{proposal.pk}/").text).one("data-joining")
    assert joining.attributes["data-joining"] == "join" and any(joining.values("data-since"))


def test_an_admin_says_whether_weir_defragments(world: World, client_of: ClientOf) -> None:
    limits = {"team": "city", "changes_per_hour": "3", "changes_per_day": "9", "cool_down_min": "20"}
    client_of("dev").post("/controllers/defragmentation/set", limits | {"mode": "acts"})
    client_of("ana").post("/controllers/defragmentation/set", limits | {"mode": "off"})
    page = Markup(client_of("ana").get("/controllers/defragmentation/").text)
    team = page.one("data-team", "city")
    assert (team.attributes["data-mode"], team.attributes["data-a-day"]) == ("acts", "9")
    chips = Markup(client_of("ana").get("/teams/").text).by("data-controller")
    assert {name: chip.attributes["data-mode"] for name, chip in chips.items()} == {
        "chaining": "recommends", "defragmentation": "acts", "deployment": "recommends", "isolation": "acts",
        "adaptation": "recommends", "open_batches": "acts", "remeasuring": "recommends"}


def test_a_rejection_needs_a_comment_and_shows_it(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    client = client_of("ana")
    page = Markup(client.post(f"/proposals/{proposal.pk}/reject", {"comment": " "}, follow=True).text)
    assert page.flashes == ["bad_input"]
    assert Proposal.objects.get().status == "pending"
    response = client.post(f"/proposals/{proposal.pk}/reject", {"comment": "Too <b>dear</b>"}, follow=True)
    assert Proposal.objects.get().status == "rejected"
    assert "Too &lt;b&gt;dear&lt;/b&gt;" in response.text


def test_its_author_cancels(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    client_of("carla").post(f"/proposals/{proposal.pk}/cancel")
    assert Proposal.objects.get().status == "cancelled"


def test_a_stale_plan_is_recomputed_with_one_click(world: World, client_of: ClientOf) -> None:
    late = planned(world.carla, world.city, document("jams", window=20))
    running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    assert "looked-at-again" in Markup(client.get(f"/proposals/{late.pk}/").text).notes
    held_to_estate(late)
    assert "stale-estate" in Markup(client.get(f"/proposals/{late.pk}/").text).notes
    page = Markup(client.post(f"/proposals/{late.pk}/recompute", follow=True).text)
    assert page.flashes == ["computing"]
    assert Proposal.objects.get(pk=late.pk).status == "computing"


def test_what_is_being_enacted_is_rolled_back(world: World, client_of: ClientOf) -> None:
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    response = client_of("ana").post(f"/proposals/{proposal.pk}/roll_back", follow=True)
    back = Proposal.objects.get()
    assert back.status == "rolling_back"
    assert set(Markup(response.text).values("data-step")) == {step.key for step in plan_of(back.rollback_plan).steps}


def test_a_removal_is_proposed(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    response = client_of("carla").post(f"/dataflows/{record.pk}/rearrange/remove", follow=True)
    assert Markup(response.text).flashes == ["remove"]
    assert Proposal.objects.filter(plan__kind="remove", dataflow=record).exists()


def test_a_viewer_sees_no_button_that_would_be_refused(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    assert f"/dataflows/{record.pk}/rearrange/remove" in client_of("carla").get(f"/dataflows/{record.pk}/").text
    client = client_of("vera")
    assert f"/dataflows/{record.pk}/rearrange/remove" not in client.get(f"/dataflows/{record.pk}/").text
    response = client.post(f"/dataflows/{record.pk}/rearrange/remove", follow=True)
    assert Markup(response.text).flashes == ["permission_denied"]


def test_nothing_of_a_private_dataflow_shows_to_another_team(world: World, client_of: ClientOf) -> None:
    secret = running(world.carla, world.city, document("secret-plan", visibility="private"), world.ana)
    proposal = Proposal.objects.get(dataflow=secret)
    of_vera, other = client_of("vera"), client_of("mo")
    for address in ("/", "/dataflows/", "/proposals/"):
        assert "secret-plan" in of_vera.get(address).text, address
        assert "secret-plan" not in other.get(address).text, address
    assert "secret-plan" not in other.get("/dataflows/?q=secret").text.split("<tbody>")[-1]
    for address in (
        f"/dataflows/{secret.pk}/", f"/dataflows/{secret.pk}/graph.json", f"/dataflows/{secret.pk}/plots.json",
        f"/dataflows/{secret.pk}/outputs/out", f"/proposals/{proposal.pk}/", f"/proposals/{proposal.pk}/graph.json",
        f"/dataflows/new?again={secret.pk}",
    ):
        assert other.get(address).status_code == 404, address
    for address in (f"/dataflows/{secret.pk}/rearrange/remove", f"/proposals/{proposal.pk}/approve"):
        assert other.post(address, {"digest": proposal.plan.digest}).status_code == 404, address


def test_admins_change_members_and_others_do_not(world: World, client_of: ClientOf) -> None:
    client_of("dev").post("/teams/city/members", {"username": "mo", "role": str(Role.ENGINEER)})
    assert Membership.objects.get(team=world.city, user=world.mo).role == Role.ENGINEER
    client_of("vera").post("/teams/city/members", {"username": "vera", "role": str(Role.ADMIN)})
    assert Membership.objects.get(team=world.city, user=world.vera).role == Role.VIEWER
    client_of("dev").post("/teams/city/members/remove", {"username": "mo"})
    assert not Membership.objects.filter(team=world.city, user=world.mo).exists()


@pytest.mark.parametrize("form", [{"username": "nobody-like-that", "role": "2"}, {"username": "mo", "role": "9"},
                                  {"username": "mo"}, {"username": "mo", "role": "admin"}])
def test_a_member_that_cannot_be_is_an_error_on_the_page(form: dict, world: World, client_of: ClientOf) -> None:
    response = client_of("dev").post("/teams/city/members", form, follow=True)
    assert response.status_code == 200
    [flash] = Markup(response.text).having("data-flash")
    assert flash.attributes["class"] == "toast toast-error" and flash.attributes["data-flash"] == "not_found"
    assert not Membership.objects.filter(team=world.city, user=world.mo).exists()


def test_administrators_make_teams(client_of: ClientOf) -> None:
    client_of("root").post("/teams/new", {"slug": "energy", "name": "Energy"})
    client_of("dev").post("/teams/new", {"slug": "secret", "name": "Secret"})
    assert set(Team.objects.values_list("slug", flat=True)) == {"city", "mobility", "energy"}


def test_a_token_is_shown_once_and_revoked(client_of: ClientOf) -> None:
    client = client_of("carla")
    page = Markup(client.post("/tokens/new", {"name": "laptop"}, follow=True).text)
    [secret] = page.one("data-note", "new-token").every("code")
    assert secret.text.startswith("weir_")
    again = client.get("/teams/").text
    assert "new-token" not in Markup(again).notes and secret.text not in again
    client.post(f"/tokens/{ApiToken.objects.get().pk}/revoke")
    assert not ApiToken.objects.exists()


def test_logging_in_and_out(world: World) -> None:
    client = Client()
    wrong = client.post("/login/", {"username": "carla", "password": "no"})
    assert wrong.status_code == 200
    assert "wrong-password" in Markup(wrong.text).notes
    right = client.post("/login/", {"username": "carla", "password": PASSWORD, "next": "/dataflows/"})
    assert right.url == "/dataflows/"
    assert client.post("/logout/").url == "/login/"
    assert client.get("/").status_code == 302


def test_a_log_in_leads_to_no_other_site(world: World) -> None:
    form = {"username": "carla", "password": PASSWORD, "next": "https://elsewhere.example/"}
    assert Client().post("/login/", form).url == "/"


def test_too_many_failures_are_told_with_how_long_to_wait(world: World, settings) -> None:
    client = Client()
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        client.post("/login/", {"username": "carla", "password": "no"})
    response = client.post("/login/", {"username": "carla", "password": PASSWORD})
    assert response.status_code == 429
    assert Markup(response.text).values("data-error") == ["too_many_logins"]
    assert response.headers["Retry-After"] == "900"


def test_the_password_is_changed(world: World, client_of: ClientOf) -> None:
    client = client_of("carla")
    new = "an entirely new one 7"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert Markup(client.post("/password/", form, follow=True).text).flashes == ["password-changed"]
    assert Client().login(username="carla", password=new)


def test_the_list_is_searched_and_filtered(world: World, client_of: ClientOf) -> None:
    for number in range(3):
        planned(world.carla, world.city, document(f"traffic-{number}", window=number + 1))
    running(world.mo, world.mobility, document("jams", window=20), world.ben)
    client = client_of("carla")

    def names(query: str) -> list[str]:
        return [row["record"].name for row in client.get(f"/dataflows/{query}").context["rows"]]

    assert names("?q=traffic") == ["traffic-2", "traffic-1", "traffic-0"]
    assert names("?team=mobility") == ["jams"]
    assert names("?status=running") == ["jams"]
    assert names("?status=nonsense&q=traffic-1") == ["traffic-1"]
    assert names("?page=999&q=traffic") == ["traffic-2", "traffic-1", "traffic-0"]
