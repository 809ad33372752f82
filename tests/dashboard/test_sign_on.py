"""Single sign-on by OpenID Connect, at a provider that runs: who comes in, as whom, with which roles, and who not."""

from __future__ import annotations

import base64
import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.audit.models import AuditEntry
from dashboard.teams.groups import grant_of, providers
from dashboard.teams.models import LoginFailure, Membership, Role, User
from dashboard.teams.provider_session import provider_session
from dashboard.teams.services import deactivate
from tests.cases import each
from tests.dashboard.building import PASSWORD, World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oidc_provider_mock
    from oidc_provider_mock import User as Somebody

ROLES = ("eng:city:engineer", "leads:city:approver", "team:x:mobility:viewer", "ops:*:administrator")
PEOPLE: dict[str, dict[str, Any]] = {
    "1": {"preferred_username": "nina", "groups": ["eng", "other"]},
    "2": {"preferred_username": "otto", "groups": ["ops", "team:x"]},
    "3": {"preferred_username": "carla", "groups": ["eng"]},  # somebody else is called so here
    "4": {"preferred_username": "paul", "groups": []},
    "5": {"preferred_username": "qu\u202ein", "groups": ["eng"]},
    "6": {"groups": ["eng"]},
    "7": {"preferred_username": "rita", "groups": "leads"},
    "8": {"preferred_username": "c\u0430rla", "groups": ["eng"]},  # a Cyrillic letter
    "9": {"preferred_username": "\uff23arla", "groups": ["eng"]},  # a wide letter
    "10": {"preferred_username": "CARLA", "groups": ["eng"]},
    "11": {"preferred_username": "\u0418\u0432\u0430\u043d", "groups": ["eng"]},
    "12": {"preferred_username": "\uff21ki\u3042\u304d", "groups": ["eng"]},
    "13": {"preferred_username": "\u0441\u0430\u0433\u04cf\u0430", "groups": ["eng"]},  # carla in Cyrillic letters
    "14": {"preferred_username": "c\u0251rla", "groups": ["eng"]},  # a Latin letter that looks like another one
}


class Provider:
    """A provider that runs on this machine, and what it says of people."""

    def __init__(self, address: str) -> None:
        self.address = address

    def says(self, subject: str, **claims: Any) -> None:
        requests.put(f"{self.address}/users/{subject}", json=claims, timeout=10).raise_for_status()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with oidc_provider_mock.run_server_in_thread(
                user_claims=[Somebody(sub=sub, claims=claims) for sub, claims in PEOPLE.items()]) as server:
            yield f"http://localhost:{server.server_port}"


@pytest.fixture
def provider(world: World, address: str, settings: Any) -> Provider:
    settings.OIDC_ISSUER = address
    settings.OIDC_ROLES = [grant_of(entry) for entry in ROLES]
    settings.SOCIALACCOUNT_PROVIDERS = providers(
        issuer=address, client_id="weir", secret="s", scopes=["openid", "profile"])
    started = Provider(address)
    for subject, claims in PEOPLE.items():
        started.says(subject, **claims)
    return started


def to_provider(client: Client, target: str = "") -> str:
    """Where the log-in page's button leads."""
    answer = client.post("/sign-on/oidc/begin", {"next": target})
    assert answer.status_code == 302, answer.content
    return answer.url


def back(address: str, subject: str) -> str:
    """Where the provider sends a person who has told it who they are."""
    answer = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=10)
    assert answer.status_code == 302, answer.text
    place = urlsplit(answer.headers["Location"])
    return f"{place.path}?{place.query}"


def sign_on(subject: str, client: Client | None = None, target: str = "") -> tuple[Client, Any]:
    client = client or Client()
    return client, client.get(back(to_provider(client, target), subject))


def roles_of(name: str) -> dict[str, str]:
    return {member.team.slug: Role(member.role).label for member in Membership.objects.filter(user__username=name)}


def audited_verbs() -> list[str]:
    """What the trail says of people and roles."""
    return [entry.verb for entry in AuditEntry.objects.order_by("pk") if entry.verb.startswith(("team.", "user."))]


def test_who_is_new_comes_in_with_the_roles_that_the_groups_give(provider: Provider):
    client, answer = sign_on("1", target="/dataflows/")
    assert (answer.status_code, answer.url) == (302, "/dataflows/")
    assert client.get("/api/me").json() == {
        "username": "nina", "administrator": False, "roles": {"city": "engineer"}}
    nina = User.objects.get(username="nina")
    assert not nina.has_usable_password() and not nina.is_staff
    assert client.session.get_expiry_age() <= timedelta(hours=12).total_seconds()
    assert audited_verbs() == ["team.set_role", "user.sign_on"]
    assert not SocialToken.objects.exists() and SocialAccount.objects.get().extra_data == {}
    _, again = sign_on("1")
    assert again.url == "/" and User.objects.filter(username="nina").count() == 1
    assert len(audited_verbs()) == 2  # nothing changed


def test_what_groups_no_longer_give_is_taken_away_at_the_next_sign_on(world: World, provider: Provider):
    sign_on("2")
    assert roles_of("otto") == {"mobility": "viewer"} and User.objects.get(username="otto").is_superuser
    Membership.objects.create(
        user=User.objects.get(username="otto"), team=world.city, role=Role.ADMIN)  # by hand: groups decide there
    provider.says("2", preferred_username="renamed", groups=["leads"])
    client, _ = sign_on("2")
    assert roles_of("otto") == {"city": "approver"} and not User.objects.get(username="otto").is_superuser
    provider.says("2", preferred_username="otto", groups=["none that counts"])
    _, refused = sign_on("2", client=Client())
    assert refused.status_code == 403 and roles_of("otto") == {}
    assert client.get("/api/me").json()["roles"] == {}


def test_teams_that_no_entry_names_are_left_alone(world: World, provider: Provider, settings: Any):
    settings.OIDC_ROLES = [grant_of("eng:city:engineer")]
    sign_on("1")
    nina = User.objects.get(username="nina")
    Membership.objects.create(user=nina, team=world.mobility, role=Role.APPROVER)
    User.objects.filter(pk=nina.pk).update(is_superuser=True)
    sign_on("1")
    assert roles_of("nina") == {"city": "engineer", "mobility": "approver"}
    assert User.objects.get(pk=nina.pk).is_superuser


def test_the_last_administrator_stays_one(world: World, provider: Provider):
    sign_on("2")
    deactivate(actor=User.objects.get(username="otto"), username="root")
    provider.says("2", preferred_username="otto", groups=["eng"])
    sign_on("2")
    assert User.objects.get(username="otto").is_superuser and roles_of("otto") == {"city": "engineer"}


@each("subject, status", [
    ("3", 422), ("9", 422), ("10", 422),  # the name of a local account, in whatever form
    ("8", 422),  # letters of two alphabets
    ("13", 422), ("14", 422),  # what looks like the name of a local account
    ("4", 403),  # no group that counts
    ("5", 422), ("6", 422)])  # a name that turns text, and none
def test_who_may_not_come_in_leaves_nothing(provider: Provider, subject: str, status: int):
    before = User.objects.count()
    client, answer = sign_on(subject)
    assert answer.status_code == status
    assert client.get("/api/me").status_code == 401
    assert (User.objects.count(), SocialAccount.objects.count(), audited_verbs()) == (before, 0, [])


@each("subject, name", [("11", "\u0418\u0432\u0430\u043d"), ("12", "Aki\u3042\u304d")])
def test_names_of_other_alphabets_are_names(provider: Provider, subject: str, name: str):
    client, _ = sign_on(subject)
    assert client.get("/api/me").json()["username"] == name


def test_without_entries_everybody_whom_the_provider_knows_comes_in(provider: Provider, settings: Any):
    settings.OIDC_ROLES = []
    client, _ = sign_on("4")
    assert client.get("/api/me").json() == {"username": "paul", "administrator": False, "roles": {}}


def test_an_administrator_links_a_local_account(world: World, provider: Provider):
    call_command("person", "link", "carla", "3")
    client, _ = sign_on("3")
    assert client.get("/api/me").json()["username"] == "carla"
    with pytest.raises(CommandError, match="already"):
        call_command("person", "link", "ana", "3")


def test_who_is_deactivated_stays_out(world: World, provider: Provider):
    client, _ = sign_on("1")
    deactivate(actor=world.root, username="nina")
    assert client.get("/api/me").status_code == 401
    client, answer = sign_on("1")
    assert answer.status_code == 403 and client.get("/api/me").status_code == 401


@each("spoil", [
    lambda query: query | {"state": "another"}, lambda query: {"code": query["code"]},
    lambda query: query | {"code": "another"}, lambda query: {"state": query["state"]},
    lambda query: {"state": query["state"], "error": "access_denied"}, lambda _: {}])
def test_a_way_back_that_is_not_ours_ends_at_the_log_in_page(provider: Provider, spoil: Any):
    client = Client()
    place = urlsplit(back(to_provider(client), "1"))
    query = {name: value[0] for name, value in parse_qs(place.query).items()}
    answer = client.get(place.path, spoil(query))
    assert (answer.status_code, answer.url) == (302, "/login/?sign-on=failed")
    assert client.get("/api/me").status_code == 401 and "did not confirm" in client.get(answer.url).content.decode()


def test_a_way_back_counts_in_its_own_session_and_once(provider: Provider):
    client = Client()
    mine = back(to_provider(client), "1")
    assert Client().get(mine).url == "/login/?sign-on=failed"  # somebody was led to a link of ours
    assert client.get(mine).url == "/"
    client.logout()
    assert client.get(mine).url == "/login/?sign-on=failed"


@each("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_nobody_is_led_away(provider: Provider, target: str):
    assert sign_on("1", target=target)[1].url == "/"


def test_beginning_needs_a_form_of_ours_and_is_bounded(provider: Provider, settings: Any):
    assert Client(enforce_csrf_checks=True).post("/sign-on/oidc/begin").status_code == 403
    assert Client().get("/sign-on/oidc/begin").status_code == 405
    settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS = 3
    for _ in range(5):
        sign_on("1")  # who comes in does not count
    for _ in range(3):
        to_provider(Client())
    assert Client().post("/sign-on/oidc/begin").status_code == 429
    LoginFailure.objects.update(at=timezone.now() - timedelta(hours=1))
    to_provider(Client())


def test_beginnings_of_one_address_stop_neither_known_devices_nor_passwords(
    world: World, provider: Provider, settings: Any
):
    """Behind a proxy that is not told of, all visitors have one address."""
    settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS = 3
    at_home, _ = sign_on("1")
    for _ in range(3):
        to_provider(Client())
    assert Client().post("/sign-on/oidc/begin").status_code == 429
    for _ in range(4):  # what ends well is given back
        assert sign_on("1", client=at_home)[1].url == "/"
    for _ in range(3):
        to_provider(at_home)
    assert at_home.post("/sign-on/oidc/begin").status_code == 429
    page = Client().post("/login/", {"username": "carla", "password": PASSWORD})
    assert (page.status_code, page.url) == (302, "/")


def test_the_request_is_a_code_with_a_challenge(provider: Provider):
    query = parse_qs(urlsplit(to_provider(Client())).query)
    assert query["response_type"] == ["code"] and query["code_challenge_method"] == ["S256"] and query["state"]
    assert query["redirect_uri"] == ["http://testserver/sign-on/oidc/callback"]


def test_a_provider_that_is_away_is_told(world: World, settings: Any):
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    settings.SOCIALACCOUNT_PROVIDERS = providers(issuer="http://127.0.0.1:9", client_id="w", secret="", scopes=[])
    assert Client().post("/sign-on/oidc/begin").url == "/login/?sign-on=failed"


SAID = {
    "no JSON": b"{", "a list": b"[]", "a number": b"5", "nothing": b"{}", "levels": b"[" * 200_000,
    "an address that is none": b'{"authorization_endpoint": 5}', "too much": b" " * 3_000_000 + b"{}",
    "a redirect": None}


@pytest.mark.parametrize("case", SAID)
def test_a_provider_that_says_what_cannot_be_used_is_told(world: World, settings: Any, case: str):
    class Saying(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = SAID[case]
            self.send_response(200 if body is not None else 302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Saying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.OIDC_ISSUER = issuer = f"http://127.0.0.1:{server.server_port}"
        settings.SOCIALACCOUNT_PROVIDERS = providers(issuer=issuer, client_id="w", secret="", scopes=[])
        answer = Client(raise_request_exception=False).post("/sign-on/oidc/begin")
        server.shutdown()
    assert answer.status_code == 302 and "127.0.0.1" not in answer.url.partition("?")[0]


def signed(claims: Any) -> str:
    """An ID token by which nobody has signed, as a provider may send over its own connection."""
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


ENGINEER = {"sub": "1", "aud": "weir", "exp": 4e9, "preferred_username": "nina", "groups": ["eng"]}
ANSWERED: dict[str, dict[str, Any]] = {  # claims, with what else is answered
    "for another": {"aud": "other"}, "for all": {"aud": {"weir": 1}}, "of another": {"iss": "http://localhost:1"},
    "of long ago": {"exp": 1}, "for ever": {"exp": float("inf")}, "claims that are none": {"id_token": signed([1])},
    "deep claims": {"id_token": f"e30.{'W1tb' * 60_000}.x"}, "no text": {"id_token": 5},
    "a subject without end": {"sub": "s" * 100_000}, "a subject that ends early": {"sub": "a\0b"},
    "groups by name": {"groups": {"eng": True, "ops": True}}, "groups in groups": {"groups": [["ops"]]},
    "too many groups": {"groups": [*map(str, range(100_000)), "eng"]}, "too much": {"x": "x" * 2_000_000},
    "a name that is none": {"preferred_username": {"a": "b"}},
    "a time without end": {"expires_in": 10**20}, "a time before all": {"expires_in": -(10**12)}}


def test_whatever_a_provider_answers_nobody_comes_in_by_it_and_nothing_breaks(world: World, settings: Any):
    answered: dict[str, Any] = {}

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({} if self.path == "/userinfo" else {
                "issuer": issuer, "jwks_uri": f"{issuer}/keys", **{
                    f"{what}_endpoint": f"{issuer}/{what}" for what in ("authorization", "token", "userinfo")}})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send({"access_token": "a", "id_token": signed({"iss": issuer} | ENGINEER | answered)} | answered)

        def _send(self, answer: object) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.OIDC_ISSUER = issuer = f"http://127.0.0.1:{server.server_port}"
        settings.OIDC_ROLES = [grant_of(entry) for entry in ROLES]
        settings.SOCIALACCOUNT_PROVIDERS = providers(issuer=issuer, client_id="weir", secret="", scopes=[])
        statuses = {}
        for name, claims in {**ANSWERED, "what is sound": {}}.items():
            answered.clear()
            answered.update(claims)
            client = Client(raise_request_exception=False)
            state = parse_qs(urlsplit(to_provider(client)).query)["state"][0]
            answer = client.get("/sign-on/oidc/callback", {"code": "c", "state": state})
            statuses[name] = answer.status_code // 100, client.get("/api/me").status_code
        server.shutdown()
    assert {name for name, (_, of_me) in statuses.items() if of_me == 200} == {"what is sound"}
    assert [name for name, (of_callback, _) in statuses.items() if of_callback == 5] == []


def test_what_a_provider_names_by_plain_http_is_not_asked(settings: Any):
    """Nothing but TLS vouches for an ID token: whoever answers there in the provider's place could be anybody."""
    class Counting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    paths: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for issuer in ("https://id.example.org", f"http://localhost:{server.server_port}", f"{address}0"):
            settings.OIDC_ISSUER = issuer
            with pytest.raises(requests.RequestException):
                provider_session().get(f"{address}/token")
        settings.OIDC_ISSUER = f"{address}/realm"
        assert provider_session().get(f"{address}/token").status_code == 204
        server.shutdown()
    assert paths == ["/token"]


def test_it_is_off_unless_it_is_set(world: World, provider: Provider, settings: Any):
    shown = Client().get("/login/")
    assert "Log in by single sign-on" in shown.content.decode()
    assert f"form-action 'self' {provider.address};" in shown["Content-Security-Policy"]
    settings.OIDC_ISSUER, settings.SOCIALACCOUNT_PROVIDERS = "", {}
    shown = Client().get("/login/")
    assert "Log in by" not in shown.content.decode() and "form-action 'self';" in shown["Content-Security-Policy"]
    assert Client().post("/sign-on/oidc/begin").status_code == Client().get("/sign-on/oidc/callback").status_code == 404
    assert Client().post("/sign-on/other/begin").status_code == 404
