"""Names are plain wherever they come in, and what is made of older ones breaks no mail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.approvals.services import set_rules
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.outbox import sending
from dashboard.outbox.models import Delivery
from dashboard.outbox.services import add_endpoint
from dashboard.teams.services import create_team, create_token, create_user
from scheduler.approving import Freeze, Rules
from scheduler.model.names import NameNotPlain, described, not_plain, one_line, require_plain
from tests.dashboard.building import World, document

BAD = {
    "end of line": "a\nb", "return": "a\rb", "tab": "a\tb", "nul": "a\0b", "escape": "a\x1b[31mb",
    "turned": "a\u202eb",
    "isolated": "a\u2066b", "nothing": "a\u200bb", "joined": "a\u200db", "soft hyphen": "a\u00adb",
    "filler": "a\u3164b",
    "line separator": "a\u2028b", "other space": "a\u00a0b", "tag": "a\U000e0041b", "variation": "a\ufe0fb",
    "private": "a\ue000b", "byte order": "\ufeffa"}


def by_document(world: World, name: str) -> None:
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    text = json.dumps(json.loads(document("plain")) | {"name": name})
    answer = client.post("/api/dataflows", data=json.dumps({"team": "city", "text": text, "format": "json"}),
                         content_type="application/json")
    for problem in answer.json().get("problems", []):
        assert (problem["line"] and (problem["code"], problem["path"]) == ("name_not_plain", "/name")) or (
            problem["code"] == "invalid_unicode"), problem
    if answer.status_code == 422:
        raise NameNotPlain("")


ENTRIES: dict[str, Any] = {
    "dataflow": by_document,
    "team": lambda world, name: create_team(slug="x", name=name, actor=world.root),
    "user": lambda world, name: create_user(username=name, password="correct-horse-9", actor=world.root),
    "token": lambda world, name: create_token(actor=world.carla, name=name),
    "webhook": lambda world, name: add_endpoint(
        actor=world.carla, name=name, url="http://127.0.0.1:9/x", format="weir"),
    "freeze": lambda world, name: set_rules(
        actor=world.ana, team=world.city, rules=Rules(freezes=(Freeze(0, 1, name),))),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_name_comes_in_that_is_not_plain(world: World, settings: Any, entry: str) -> None:
    settings.WEBHOOK_HOSTS = ["127.0.0.1:9"]
    before = AuditEntry.objects.count()
    for kind, name in BAD.items():
        with pytest.raises(NameNotPlain):
            ENTRIES[entry](world, name)
            pytest.fail(f"{kind} came in")
    assert AuditEntry.objects.count() == before and not DataflowRecord.objects.exists()
    ENTRIES[entry](world, "Büro-2" if entry == "user" else "Données — 東京 #2")


@given(st.text(max_size=30))
def test_a_plain_name_is_one_line_of_what_can_be_seen(name: str) -> None:
    place = not_plain(name)
    if place is None:
        assert name.replace(" ", "").isprintable() and len(name.splitlines()) <= 1
    else:
        assert not_plain(name[:place]) is None and described(name[place]).startswith("U+")
        with pytest.raises(NameNotPlain) as caught:
            require_plain(name, what="It", most=30)
        assert caught.value.facts["place"] == place + 1
    line = one_line(name, most=12)
    assert not_plain(line) is None and len(line) <= 12 and "  " not in line


def test_a_bad_subject_of_before_goes_out_clean_and_takes_no_other_with_it(db: None) -> None:
    """Names of before were not checked; and a message that cannot be sent at all keeps no other waiting."""
    sending.enqueue([
        Delivery(key="a", channel="email", to="a@example.org", subject="Down: a\r\nBcc: x@example.org\u202e",
                 payload={"text": "T"}),
        Delivery(key="b", channel="email", to="b@example.org", subject="S", payload={"nothing": "to say"}),
        Delivery(key="c", channel="email", to="c@example.org", subject="S", payload={"text": "T"})])
    assert sending.send_due() + sending.send_due() == 2, "who failed is asked again later, and the others go on"
    assert {message.to[0]: message.subject for message in mail.outbox} == {
        "a@example.org": "Down: a Bcc: x@example.org", "c@example.org": "S"}
    assert Delivery.objects.get(key="b").state == "waiting"
