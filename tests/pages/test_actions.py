"""What forms do: submit, review, remove, members, tokens; what is refused, and that nothing private shows."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.teams.models import ApiToken, Membership, Role, Team
from tests.dashboard.building import PASSWORD, World, approved, document, planned, running
from tests.pages.conftest import ClientOf


def test_a_document_is_submitted_and_its_proposal_shown(world: World, client_of: ClientOf) -> None:
    response = client_of("carla").post(
        "/dataflows/new", {"text": document("traffic"), "format": "json", "team": "city"}, follow=True)
    proposal = Proposal.objects.get()
    assert response.redirect_chain == [(f"/proposals/{proposal.pk}/", 302)]
    assert "Its plan is being computed" in response.text
    assert "Submitted." in response.text


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
    assert "line 3, column" in response.text
    assert "urban_sensing" in response.text  # the remedy
    assert "urban_sensig" in response.text.split("<textarea")[1]  # the text is kept
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
    found = answer.json()
    assert (found["reused"], found["tasks"]) == (2, 4)
    assert "traffic" in found["html"]
    marks = {task["id"]: (task["marks"], task["note"]) for task in found["graph"]["tasks"]}
    assert marks["parse"] == (["shared"], "with traffic")
    assert marks["average"] == (["starts"], "")
    for name, changed, status in (("mo", {"text": "name: x"}, 422), ("vera", {}, 404), ("mo", {"team": "city"}, 404)):
        refused = client_of(name).post("/dataflows/preview", form | changed, headers={"accept": "application/json"})
        assert refused.status_code == status
        assert refused.json()["message"]


def test_whoever_cannot_submit_is_told_what_is_missing(client_of: ClientOf) -> None:
    assert "role engineer" in client_of("vera").get("/dataflows/new").text


def test_another_person_approves_and_it_is_enacted(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    author, approver = client_of("carla"), client_of("ana")
    assert "Approve this plan" not in author.get(f"/proposals/{proposal.pk}/").text
    assert "Approve this plan" in approver.get(f"/proposals/{proposal.pk}/").text
    form = {"digest": proposal.plan.digest, "comment": ""}
    author.post(f"/proposals/{proposal.pk}/approve", form)
    assert Proposal.objects.get().status == "pending"
    response = approver.post(f"/proposals/{proposal.pk}/approve", form, follow=True)
    assert Proposal.objects.get().status == "executing"
    assert "being enacted" in response.text


def test_another_digest_than_the_plans_is_refused_with_what_to_do(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    response = client_of("ana").post(f"/proposals/{proposal.pk}/approve", {"digest": "0" * 64}, follow=True)
    assert "recomputed after you opened it" in response.text
    assert Proposal.objects.get().status == "pending"


def test_a_pause_and_a_step_of_defragmentation_are_proposed_from_the_page(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    for way, title in (("defragment", "Defragment traffic"), ("pause", "Pause traffic")):
        response = client.post(f"/dataflows/{record.pk}/rearrange/{way}", follow=True)
        assert title in response.text and title in client.get("/proposals/").text
    assert client.post(f"/dataflows/{record.pk}/rearrange/vanish").status_code == 404
    assert "nothing to resume" in client.post(f"/dataflows/{record.pk}/rearrange/resume", follow=True).text
    assert client_of("vera").get(f"/dataflows/{record.pk}/").text.count("rearrange") == 0


def test_how_to_join_is_chosen_on_the_pages(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    client = client_of("carla")
    form = {"text": document("mine"), "format": "json", "team": "city", "fresh": "1", "begin": "soon"}
    response = client.post("/dataflows/new", form)
    assert response.status_code == 422 and "is no time" in response.text
    client.post("/dataflows/new", form | {"begin": "oldest"})
    proposal = Proposal.objects.latest("created")
    prepare_proposal(proposal_id=proposal.pk)
    assert "Starts fresh" in client.get(f"/proposals/{proposal.pk}/").text
    client.post(f"/proposals/{proposal.pk}/joining", {"fresh": "0", "begin": "now"})
    prepare_proposal(proposal_id=proposal.pk)
    page = client.get(f"/proposals/{proposal.pk}/").text
    assert "Joins what is under way" in page and "has run since" in page


def test_an_admin_says_whether_weir_defragments(world: World, client_of: ClientOf) -> None:
    client_of("dev").post("/teams/city/defragmentation", {"choice": "acts"})
    client_of("ana").post("/teams/city/defragmentation", {"choice": "off"})
    assert Team.objects.get(slug="city").defragmentation == "acts"


def test_a_rejection_needs_a_comment_and_shows_it(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    client = client_of("ana")
    assert "needs a comment" in client.post(f"/proposals/{proposal.pk}/reject", {"comment": " "}, follow=True).text
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
    assert "The estate moved on" in client.get(f"/proposals/{late.pk}/").text
    response = client.post(f"/proposals/{late.pk}/recompute", follow=True)
    assert "A new plan is being computed" in response.text
    assert Proposal.objects.get(pk=late.pk).status == "computing"


def test_what_is_being_enacted_is_rolled_back(world: World, client_of: ClientOf) -> None:
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    response = client_of("ana").post(f"/proposals/{proposal.pk}/roll_back", follow=True)
    assert "Stop query" in response.text  # the reverse plan's steps, in words
    assert Proposal.objects.get().status == "rolling_back"


def test_a_removal_is_proposed(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    response = client_of("carla").post(f"/dataflows/{record.pk}/remove", follow=True)
    assert "Its removal is proposed" in response.text
    assert Proposal.objects.filter(plan__kind="remove", dataflow=record).exists()


def test_a_viewer_sees_no_button_that_would_be_refused(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    assert f"/dataflows/{record.pk}/remove" in client_of("carla").get(f"/dataflows/{record.pk}/").text
    client = client_of("vera")
    assert f"/dataflows/{record.pk}/remove" not in client.get(f"/dataflows/{record.pk}/").text
    response = client.post(f"/dataflows/{record.pk}/remove", follow=True)
    assert "This needs the role engineer" in response.text


def test_nothing_of_a_private_dataflow_shows_to_another_team(world: World, client_of: ClientOf) -> None:
    secret = running(world.carla, world.city, document("secret-plan", visibility="private"), world.ana)
    proposal = Proposal.objects.get(dataflow=secret)
    own, other = client_of("vera"), client_of("mo")
    for address in ("/", "/dataflows/", "/proposals/"):
        assert "secret-plan" in own.get(address).text, address
        assert "secret-plan" not in other.get(address).text, address
    assert "secret-plan" not in other.get("/dataflows/?q=secret").text.split("<tbody>")[-1]
    for address in (
        f"/dataflows/{secret.pk}/", f"/dataflows/{secret.pk}/graph.json", f"/dataflows/{secret.pk}/plots.json",
        f"/dataflows/{secret.pk}/outputs/out", f"/proposals/{proposal.pk}/", f"/proposals/{proposal.pk}/graph.json",
        f"/dataflows/new?again={secret.pk}",
    ):
        assert other.get(address).status_code == 404, address
    for address in (f"/dataflows/{secret.pk}/remove", f"/proposals/{proposal.pk}/approve"):
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
    assert "toast-error" in response.text
    assert not Membership.objects.filter(team=world.city, user=world.mo).exists()


def test_administrators_make_teams(client_of: ClientOf) -> None:
    client_of("root").post("/teams/new", {"slug": "energy", "name": "Energy"})
    client_of("dev").post("/teams/new", {"slug": "secret", "name": "Secret"})
    assert set(Team.objects.values_list("slug", flat=True)) == {"city", "mobility", "energy"}


def test_a_token_is_shown_once_and_revoked(client_of: ClientOf) -> None:
    client = client_of("carla")
    shown = client.post("/tokens/new", {"name": "laptop"}, follow=True).text
    assert "weir_" in shown
    assert "it is shown this once" not in client.get("/teams/").text
    client.post(f"/tokens/{ApiToken.objects.get().pk}/revoke")
    assert not ApiToken.objects.exists()


def test_logging_in_and_out(world: World) -> None:
    client = Client()
    wrong = client.post("/login/", {"username": "carla", "password": "no"})
    assert wrong.status_code == 200
    assert "don't match" in wrong.text.replace("&#x27;", "'")
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
    assert "Wait 15 minutes" in response.text
    assert response.headers["Retry-After"] == "900"


def test_the_password_is_changed(world: World, client_of: ClientOf) -> None:
    client = client_of("carla")
    new = "an entirely new one 7"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert "Your password is changed" in client.post("/password/", form, follow=True).text
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
