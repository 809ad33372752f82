"""Texts that not every database stores: whoever sends one is answered, and whoever stores others' goes on.

On SQLite these pass by themselves; `test_postgresql.py` runs them on PostgreSQL, which refuses U+0000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from dashboard.outbox.models import Delivery
from tests.dashboard.building import World, document, running
from tests.dashboard.test_api import client_of, post

pytestmark = pytest.mark.django_db
BAD = "a\0b"


@pytest.mark.parametrize("write", [
    lambda row: Delivery.objects.filter(pk=row.pk).update(error=BAD),
    lambda row: Delivery.objects.filter(pk=row.pk).update(payload={BAD: [BAD, {"c": BAD}]}),
    lambda row: Delivery.objects.bulk_create([Delivery(key=BAD, channel=BAD, payload=BAD)]),
    lambda row: list(Delivery.objects.filter(key__contains=BAD)),
    lambda row: list(Delivery.objects.filter(payload={BAD: BAD})),
    lambda row: list(Delivery.objects.filter(payload__has_key=BAD, payload__a=BAD)),
])
def test_a_text_that_a_database_refuses_stops_nobody(write: Callable[[Delivery], Any]) -> None:
    write(Delivery.objects.create(key="one", channel="email", payload={}))


def test_other_texts_are_stored_as_they_are() -> None:
    payload = {"backslash": "\\u0000 \\\\u0000", "end": "\\", "quote": '"\\"', "far": "\U0001F600\ufffd"}
    Delivery.objects.create(key="one", channel="email", payload=payload, error="\\0 \\u0000")
    row = Delivery.objects.get(key="one")
    assert (row.payload, row.error) == (payload, "\\0 \\u0000")
    row.payload = {"text": f"\\\\{BAD}"}
    row.save()
    row.refresh_from_db()
    as_stored = BAD if connection.vendor == "sqlite" else BAD.replace("\0", "\ufffd")
    assert row.payload == {"text": f"\\\\{as_stored}"}


@pytest.mark.parametrize(("way", "body"), [
    ("move", {"query": BAD, "slot": "n1/1"}), ("move", {"query": "q", "slot": BAD}),
    ("move", {"query": "q", "slot": "n1/1", "along": [BAD]}),
    ("alternates", {"task": BAD, "alternate": BAD}), ("pause-at-once", {"reason": BAD}),
])
def test_a_request_with_such_a_text_is_answered(world: World, way: str, body: dict[str, Any]) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    answer = post(client_of(world.carla), f"/api/dataflows/{record.pk}/{way}", body)
    assert answer.status_code < 500, answer.content
