"""How much a search for near misses looks at, however wide a dataflow is."""

from __future__ import annotations

import pytest

from scheduler.model.dataflow import Dataflow
from scheduler.reuse import near_misses as module
from scheduler.reuse.near_misses import near_misses
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import EMPTY, PRICES, TYPES, flow, submit

MOST = 600


def wide(name: str, width: int, by: float) -> Dataflow:
    tasks = {"s": "sensors", **{f"a{at}": ("scale", {"by": by + at / 100}) for at in range(width)}, "x": "thin"}
    return flow(name, tasks, *(f"s > a{at}" for at in range(width)), "a0 > x")


@pytest.mark.parametrize("width", [1, 4, 16])
def test_of_a_wide_dataflow_fewer_combinations_are_tried(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each of 400 named all tasks and streams anew, whoever looked: seconds of CPU of a wide dataflow."""
    monkeypatch.setattr(module, "MOST_LOOKED_AT", MOST)
    tried, search = [], module._Search.identities
    monkeypatch.setattr(module._Search, "identities", lambda *given: tried.append(1) or search(*given))
    estate, mine = submit(EMPTY, wide("old", width, 60)), wide("new", width, 60.3)

    assert near_misses(
        estate.tasks, mine, siblings=SiblingIndex(estate.tasks.values()), task_types=TYPES, prices=PRICES)

    assert 1 < len(tried) <= 1 + MOST // (len(mine.tasks) + len(mine.streams))
