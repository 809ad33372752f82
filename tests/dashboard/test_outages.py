"""Real drivers die and freeze: the site says so, of the slot, with cause and remedy, until their events flow again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benches.health import FROZEN, KILLED, measure

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.django_db
def test_a_driver_that_dies_or_does_not_answer_is_named_until_it_is_back(tmp_path: Path) -> None:
    killed, frozen = measure(tmp_path / "data", [KILLED, FROZEN], dataflows=1)
    assert killed.part in ("slot", "query") and killed.state == "recovering"
    assert (frozen.part, frozen.state) == ("slot", "stalled") and "does not answer" in frozen.cause
