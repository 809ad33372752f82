"""Messages about proposals: who is told, how each has chosen, once each; and digests that hold them back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from dashboard.approvals import services
from dashboard.approvals.demands import demands_of
from dashboard.approvals.models import Proposal
from dashboard.approvals.review_notices import ask_reviewers
from dashboard.core.http_errors import BadInput
from dashboard.outbox import digests, sending
from dashboard.outbox.models import Delivery, Endpoint
from dashboard.outbox.notice_choices import SUBJECTS, NoticeChoice, NoticeMessage, choices_of, deliveries_to
from dashboard.outbox.notice_choices import next_digest_s as digest_s
from dashboard.outbox.services import set_choices
from tests.dashboard.building import World, approved, document, planned


@pytest.fixture
def addressed(world: World) -> World:
    """Everybody has an address of mail."""
    for name, user in world.users.items():
        user.email = f"{name}@example.org"
        user.save()
    return world


def mails(**facts: Any) -> set[tuple[str, str]]:
    """To whom mail waits, and its subject."""
    return {(row.to.partition("@")[0], row.subject.removeprefix("[Weir] "))
            for row in Delivery.objects.filter(channel="email", **facts)}


def proposed(world: World) -> Proposal:
    return planned(world.ana, world.city, document("traffic"))


def test_those_who_may_approve_are_asked_once(addressed: World) -> None:
    proposal = proposed(addressed)
    reviewers = {name for name, subject in mails() if "waits for an approval by City" in subject}
    assert reviewers and reviewers.isdisjoint({"ana", "vera", "mo"})
    client = Client()
    client.force_login(addressed.abe)
    page = client.get(f"/proposals/{proposal.pk}/").text
    does = re.search(r'data-part="summary">([^<]+)<', page)[1]
    assert re.search(r"1 step, reversible|\d+ steps, each reversible", page)
    price = re.search(r"[^>]+ an hour for CPU", page)[0]
    assert all(f"{does}; {price}." in row.payload["text"] for row in Delivery.objects.filter(channel="email"))
    before = Delivery.objects.count()
    ask_reviewers(proposal, demands_of(proposal, at=timezone.now()))
    assert Delivery.objects.count() == before


def test_an_author_hears_of_a_decision_by_others(addressed: World) -> None:
    approved(proposed(addressed), addressed.abe)
    assert ("ana", "Proposal of traffic was approved by abe") in mails()
    other = planned(addressed.ana, addressed.city, document("other"))
    services.reject_proposal(actor=addressed.abe, proposal_id=other.pk, comment="Too wide a window.")
    assert ("ana", "Proposal of other was rejected by abe") in mails()
    rejection = Delivery.objects.get(to="ana@example.org", subject__contains="rejected")
    assert "Too wide a window." in rejection.payload["text"] and str(other.pk) in rejection.payload["text"]


def test_whoever_is_named_hears_of_it_where_they_may_see_it(addressed: World) -> None:
    private = planned(addressed.ana, addressed.city, document("hidden", visibility="private"))
    services.comment_on(actor=addressed.ana, proposal_id=private.pk, text="@carla and @mo, look at this.")
    named = {name for name, subject in mails() if subject == "ana names you in Proposal of hidden"}
    assert named == {"carla"}


def test_a_teams_webhook_gets_requests_if_it_takes_all(addressed: World) -> None:
    for least in ("info", "warning"):
        Endpoint.objects.create(team=addressed.city, name=least, url="http://x/", least=least, sealed="s")
    proposal = proposed(addressed)
    [posted] = Delivery.objects.filter(channel="webhook")
    assert posted.endpoint.name == "info"
    assert posted.payload["event"] == "review" and posted.payload["proposal"] == str(proposal.pk)


def test_choices_are_kept_and_checked(addressed: World) -> None:
    assert [choice.subject for choice in choices_of(addressed.abe)] == list(SUBJECTS)
    chosen = NoticeChoice("review", False, False)
    set_choices(actor=addressed.abe, choices=[chosen], email="abe@example.org")
    assert chosen in choices_of(addressed.abe)
    proposed(addressed)
    assert not any(name == "abe" for name, _ in mails())
    too_long = f"{'a' * 250}@example.org"  # for its column: PostgreSQL refuses it, as an error of the site
    for choices, email in (([NoticeChoice("nothing", True, True)], ""), ([], "no address"), ([], too_long)):
        with pytest.raises(BadInput):
            set_choices(actor=addressed.abe, choices=choices, email=email)


def test_a_digest_is_one_message_of_all_that_was_held_back(addressed: World, settings: Any) -> None:
    daily = NoticeChoice("mention", True, False, daily=True)
    for number in range(3):
        notice = NoticeMessage(f"n:{number}", {"title": f"message {number}", "link": "http://x/"}, "text")
        for delivery in deliveries_to([(addressed.carla, daily), (addressed.ana, daily)], notice):
            delivery.save()
    due_s = digest_s(timezone.now())
    sending.send_due(now=lambda: due_s - 1)
    assert not mail.outbox and not sending.is_any_due(now=lambda: due_s - 1)
    assert sending.is_any_due(now=lambda: due_s)
    sending.send_due(now=lambda: due_s)
    assert {message.to[0] for message in mail.outbox} == {"carla@example.org", "ana@example.org"}
    for message in mail.outbox:
        assert message.subject == "[Weir] 3 messages since the last digest"
        assert all(f"message {number}" in message.body for number in range(3))
    assert sending.send_due(now=lambda: due_s) == 0 and Delivery.objects.count() == 2


def test_a_long_digest_counts_what_it_does_not_list(addressed: World) -> None:
    daily = NoticeChoice("mention", True, False, daily=True)
    Delivery.objects.bulk_create(
        delivery for number in range(digests.LISTED + 7) for delivery in deliveries_to(
            [(addressed.carla, daily)], NoticeMessage(f"n:{number}", {"title": f"m{number}", "link": ""}, "")))
    assert digests.gather_due(digest_s(timezone.now())) == 1
    assert "- and 7 more" in Delivery.objects.get().payload["text"]


@pytest.mark.parametrize(("hour", "digest"), [(6, 7), (7, 31), (8, 31)])
def test_the_next_digest_is_at_the_hour_that_is_set(settings: Any, hour: int, digest: int) -> None:
    settings.DIGEST_HOUR = 7
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    at = midnight + timedelta(hours=hour)
    assert digest_s(at) == int((midnight + timedelta(hours=digest)).timestamp())
