"""How many latency limits a dataflow may have: fewer where it has very many streams."""

from __future__ import annotations

import json

import pytest

from scheduler.model.documents import read_limits
from scheduler.model.errors import InvalidDataflow


@pytest.mark.parametrize("streams, most", [(0, 20), (2_000, 20), (4_000, 10), (19_000, 2), (50_000, 1)])
def test_streams_times_limits_are_bounded(streams: int, most: int) -> None:
    pairs = {(f"a{number}", f"b{number}") for number in range(streams)}

    def read(count: int) -> int:
        text = json.dumps([{"limit": 1 + number} for number in range(count)])
        return len(read_limits(text, tasks=(), streams=pairs) or ())

    assert read(most) == most
    with pytest.raises(InvalidDataflow) as refusal:
        read(most + 1)
    assert f"Write at most {most}" in str(refusal.value.problems[0])
