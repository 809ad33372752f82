"""What is sent, to a receiver of this machine: signed, tried again, given up; and where nothing may be sent to."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import uuid
from collections.abc import Iterator
from datetime import timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage

from dashboard.alerts.notices import trial_payload
from dashboard.config.environment import Environment, InvalidSetting
from dashboard.outbox import sending, services, webhook_posts
from dashboard.outbox.models import DEAD, HELD, Delivery, Endpoint
from dashboard.outbox.webhook_posts import HostNotAllowed
from dashboard.teams.services import deactivate
from scheduler.alerting.retrying import MOST_ATTEMPTS
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from tests.dashboard.alerting import NOW_S, Receiver, receiver
from tests.dashboard.building import World


@pytest.fixture
def got(settings: Any, tmp_path: Any) -> Iterator[Receiver]:
    settings.DATA_DIR = tmp_path
    with receiver() as listening:
        settings.WEBHOOK_HOSTS = [listening.host]
        yield listening


def hooked(world: World, got: Receiver, **facts: Any) -> tuple[Endpoint, str]:
    return services.add_endpoint(actor=world.carla, **{"name": "hook", "url": got.url, "format": "weir"} | facts)


def tried(world: World, endpoint: Endpoint) -> Delivery:
    return services.try_endpoint(actor=world.carla, endpoint_id=endpoint.pk, payload=trial_payload("carla"))


def enqueued(*deliveries: dict[str, Any]) -> None:
    """Messages that wait, in this order."""
    for facts in deliveries:
        pk = uuid.uuid4()
        payload = trial_payload("carla") | {"text": "T"}
        sending.enqueue([Delivery(**{"pk": pk, "key": str(pk), "channel": "webhook", "payload": payload, **facts})])


def test_a_webhook_is_signed_with_its_time_and_told_apart_by_an_id(world: World, got: Receiver) -> None:
    endpoint, secret = hooked(world, got)
    delivery = tried(world, endpoint)
    assert secret not in endpoint.sealed
    assert sending.send_due(now=lambda: NOW_S) == 1 and sending.send_due(now=lambda: NOW_S) == 0
    [(path, headers, body)] = got.requests
    signed = hmac.new(secret.encode(), f"{NOW_S}.".encode() + body, hashlib.sha256).hexdigest()
    assert (path, headers["X-Weir-Timestamp"], headers["X-Weir-Signature"]) == ("/hook", str(NOW_S), f"v1={signed}")
    assert headers["Idempotency-Key"] == str(delivery.pk) and json.loads(body)["event"] == "test"
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.error) == ("sent", 1, "")


def test_slacks_shape(world: World, got: Receiver) -> None:
    tried(world, hooked(world, got, format="slack")[0])
    sending.send_due()
    message = json.loads(got.requests[0][2])
    assert set(message) == {"text", "blocks"} and message["blocks"][0]["text"]["type"] == "mrkdwn"


def test_what_fails_is_tried_again_under_its_id_and_given_up_with_the_reason(world: World, got: Receiver) -> None:
    endpoint, _ = hooked(world, got)
    delivery, now_s = tried(world, endpoint), NOW_S
    got.answer = lambda _: (500, {})
    for attempt in range(1, MOST_ATTEMPTS + 1):
        sending.send_due(now=lambda at_s=now_s: at_s)
        assert len(got.requests) == attempt
        delivery.refresh_from_db()
        sending.send_due(now=lambda at_s=now_s: at_s)
        assert len(got.requests) == attempt  # not before its time
        now_s = max(now_s, delivery.next_s)
    assert delivery.state == "dead" and "answered 500" in delivery.error
    assert len({headers["Idempotency-Key"] for _, headers, _ in got.requests}) == 1
    got.answer = lambda _: (204, {})
    services.send_again(actor=world.carla, delivery_id=delivery.pk)
    assert sending.send_due(now=lambda: now_s) == 1


def test_a_worker_that_is_killed_while_it_sends_leaves_it_to_the_next(
    world: World, got: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(world, hooked(world, got)[0])

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(sending, "post_json", killed)
        with pytest.raises(KeyboardInterrupt):
            sending.send_due(now=lambda: NOW_S)
    assert sending.send_due(now=lambda: NOW_S + 5) == 0  # another worker: it may still be under way
    assert sending.send_due(now=lambda: NOW_S + sending.CLAIM_S) == 1


def test_one_that_fails_keeps_nobody_else_waiting(world: World, got: Receiver) -> None:
    broken, _ = hooked(world, got)
    well, _ = hooked(world, got, url=f"http://{got.host}/well")
    enqueued(*(dict(endpoint=endpoint) for endpoint in (broken, broken, broken, well)))
    got.answer = lambda _: (204 if got.requests[-1][0] == "/well" else 503, {})
    assert sending.send_due(now=lambda: NOW_S) == 1
    assert [path for path, _, _ in got.requests] == ["/hook", "/well"]


@pytest.mark.parametrize(("failure", "first"), [
    (SMTPRecipientsRefused({}), {"channel": "email", "to": "nobody@example.org"}),
    (SMTPDataError(550, b"no"), {"channel": "email", "to": "nobody@example.org"}),
    (None, {"channel": "webhook"})])
def test_many_messages_that_do_not_arrive_keep_nobody_elses_waiting(
    world: World, got: Receiver, monkeypatch: pytest.MonkeyPatch, failure: Exception | None, first: dict[str, Any]
) -> None:
    """More than one run looks at, all older than what somebody else is told."""
    hook = {"endpoint": hooked(world, got)[0]} if first["channel"] == "webhook" else {}
    enqueued(*([first | hook] * 2 * sending.AT_ONCE))
    enqueued({"channel": "email", "to": "ana@example.org"})
    got.answer = lambda _: (503, {})
    sent = EmailMessage.send

    def send(message: EmailMessage) -> int:
        if failure is not None and message.to == ["nobody@example.org"]:
            raise failure
        return sent(message)

    monkeypatch.setattr(EmailMessage, "send", send)
    for run in range(3):  # not as many as there are messages in front
        sending.send_due(now=lambda at_s=NOW_S + run: at_s)
    assert [message.to for message in mail.outbox] == [["ana@example.org"]]


def test_a_webhook_is_tried_one_message_at_a_time(world: World, got: Receiver) -> None:
    endpoint, _ = hooked(world, got)
    tried(world, endpoint)
    with pytest.raises(InvalidTransition):
        tried(world, endpoint)
    sending.send_due()
    tried(world, endpoint)


def test_what_waits_for_ever_is_dropped_as_what_was_given_up(world: World) -> None:
    enqueued({"channel": "email", "to": "ana@example.org"})
    long_after = Delivery.objects.get().created + sending.DEAD_FOR
    assert (sending.forget_deliveries(long_after), sending.forget_deliveries(long_after + timedelta(1))) == (0, 1)


def test_a_redirect_leads_nowhere(world: World, got: Receiver) -> None:
    with receiver() as inner:
        got.answer = lambda _: (307, {"Location": inner.url})
        delivery = tried(world, hooked(world, got)[0])
        sending.send_due()
        delivery.refresh_from_db()
        assert inner.requests == [] and "redirects are not followed" in delivery.error


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:1/x", "http://169.254.169.254/latest", "http://user@hooks.example.org/",
    "ftp://hooks.example.org/",
    "http://hooks.example.org:8080/", "http://hooks.example.org.evil.org/", "http://[::1]/", "http://2130706433/",
    "https://hooks.example.org/\r\nHost: x", "//hooks.example.org/", "http://hooks.example.org@evil.org/"])
def test_only_hosts_that_the_operator_named_are_asked(url: str, settings: Any) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example.org"]
    webhook_posts.require_allowed("https://hooks.example.org/services/x")
    with pytest.raises(HostNotAllowed):
        webhook_posts.require_allowed(url)


@pytest.mark.parametrize("address", [
    "127.0.0.1", "10.0.0.7", "::1", "169.254.169.254", "0.0.0.0", "::ffff:127.0.0.1", "fe80::1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:5ef5:79fd:0:0:f5ff:fff8"])
def test_a_name_that_leads_to_this_machine_is_refused_when_it_is_asked(
    address: str, world: World, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    settings.WEBHOOK_HOSTS, settings.DATA_DIR = ["hooks.example.org"], tmp_path
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (address, 80))])
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("connected"))
    endpoint, _ = services.add_endpoint(
        actor=world.carla, name="hook", url="http://hooks.example.org/x", format="weir")
    delivery = tried(world, endpoint)
    sending.send_due()
    delivery.refresh_from_db()
    assert delivery.state == "dead" and "which names may not lead to" in delivery.error


def test_whose_webhooks_are_whose(world: World, got: Receiver) -> None:
    mine, _ = hooked(world, got)
    with pytest.raises(PermissionDenied):
        hooked(world, got, team=world.city)
    team_hook, _ = services.add_endpoint(
        actor=world.dev, name="chat", url=got.url, format="slack", team=world.city)
    for endpoint in (mine, team_hook):
        with pytest.raises(NotFound):
            services.remove_endpoint(actor=world.mo, endpoint_id=endpoint.pk)
    services.remove_endpoint(actor=world.dev, endpoint_id=team_hook.pk)
    assert list(Endpoint.objects.all()) == [mine]


def test_mail_goes_by_djangos_backend_and_its_settings_come_from_one_address(world: World) -> None:
    sending.enqueue([Delivery(key="m", channel="email", to="a@example.org", subject="S", payload={"text": "T"})] * 1)
    sending.enqueue([Delivery(key="m", channel="email", to="a@example.org", subject="S", payload={"text": "T"})])
    assert sending.send_due() == 1 and [message.to for message in mail.outbox] == [["a@example.org"]]
    made = Environment({"EMAIL_URL": "smtp://a%40b:p@mail.example.org?tls=1"}).email()
    assert (made["EMAIL_PORT"], made["EMAIL_HOST_USER"], made["EMAIL_USE_TLS"]) == (587, "a@b", True)
    with pytest.raises(InvalidSetting):
        Environment({"EMAIL_URL": "imap://x"}).email()


def test_what_waits_for_somebody_who_is_deactivated_is_sent_by_no_way(world: World, got: Receiver) -> None:
    endpoint, _ = hooked(world, got)
    digest = {"link": "https://weir/", "at": "2026-05-01T12:00:00+00:00"}
    ways = [
        {"channel": "email", "to": "carla@example.org", "user": world.carla},
        {"endpoint": endpoint},
        {"channel": "email", "to": "carla@example.org", "user": world.carla, "state": HELD, "payload": digest}]
    enqueued(*ways, {"channel": "email", "to": "ana@example.org", "user": world.ana})
    deactivate(actor=world.root, username="carla")
    assert sending.send_due(now=lambda: NOW_S) == 1, "what is for others goes out"
    assert [message.to for message in mail.outbox] == [["ana@example.org"]] and got.requests == []
    dead = Delivery.objects.filter(state=DEAD)
    assert dead.count() == len(ways) and all("carla is deactivated" in delivery.error for delivery in dead)


@pytest.mark.parametrize("answer", [b"\0", b"no \x00 thanks \\u0000", b"\xed\xa0\x80"])
def test_what_a_receiver_answers_is_noted_whatever_it_is_and_others_get_theirs(
    world: World, got: Receiver, answer: bytes
) -> None:
    bad, _ = hooked(world, got)
    got.answer = lambda number: (500 if number == 1 else 204, {})
    got.body = answer
    other, _ = services.add_endpoint(actor=world.ana, name="other", url=got.url, format="weir")
    enqueued({"endpoint": bad, "next_s": 1}, {"endpoint": other, "next_s": 2})
    assert sending.send_due(now=lambda: NOW_S) == 1
    assert "answered 500" in Delivery.objects.get(endpoint=bad).error
