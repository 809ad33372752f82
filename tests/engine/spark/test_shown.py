"""What a source would make that does not run is shown by a slot."""

from __future__ import annotations

from uuid import uuid4

import pytest

from scheduler.contracts.looks import DONE, FAILED, LookOrder
from workers.engine import look_store

from .rig import NODE, Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def shown(rig: Rig, task_type: str, config: dict) -> look_store.LookProgress:
    order = LookOrder(uuid4().hex, NODE, task_type, config)
    look_store.order(rig.broker, order, owner="somebody")

    def over() -> look_store.LookProgress | None:
        seen = look_store.seen(rig.broker, order.id, owner="somebody")
        return seen if seen is not None and seen.state.is_over else None

    return rig.wait(over, what="a look")


def test_a_slot_shows_what_a_source_would_make_first(rig: Rig) -> None:
    rig.wait_serving()
    seen = shown(rig, "urban_sensing", {
        "rate_per_s": 50.0, "seed": 1, "sensors": 3, "gap_share": 0.0, "outlier_share": 0.0, "day_s": 86_400.0})
    assert seen.state.state == DONE and len(seen.events) == 20
    assert seen.types == {"senml": "string"} and all("urban" in event["senml"] for event in seen.events)


def test_what_cannot_be_made_says_why(rig: Rig) -> None:
    rig.wait_serving()
    seen = shown(rig, "urban_sensing", {"rate_per_s": 50.0, "sensors": "many"})
    assert seen.state.state == FAILED and seen.state.message
