"""A query starts although a kill has left its first offsets half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_what_a_kill_left_of_the_first_offsets_stops_no_query(rig: Rig) -> None:
    offsets = Path(rig.folder / "checkpoint-a" / "offsets")
    offsets.mkdir(parents=True)
    (offsets / ".0.6f1d0d4c.tmp").write_text("v1\n")
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=100), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) > 20, what="events", alive=(query,))
