"""A query comes to rest between two batches, by what Spark says of it, played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.spark import queries

IDLE, WAITS, BATCH = (False, False), (True, False), (True, True)  # whether a trigger is active, and has events
LOOKS = st.lists(st.sampled_from([IDLE, WAITS, BATCH]), max_size=30)


class PlayedQuery:
    """Stands as it is said to, one look after the other, and then rests."""

    isActive = True

    def __init__(self, looks: list[tuple[bool, bool]], log: list[str]) -> None:
        self._looks: Iterator[tuple[bool, bool]] = iter(looks)
        self.log = log
        self._jsq = self

    def status(self) -> PlayedQuery:
        self._active, self._available = next(self._looks, IDLE)
        self.log.append("idle" if not self._active else "batch" if self._available else "waits")
        return self

    def isTriggerActive(self) -> bool:
        return self._active

    def isDataAvailable(self) -> bool:
        return self._available

    def stop(self) -> None:
        self.log.append("stop")


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "LOOK_S", 0)
        yield


@given(LOOKS)
def test_a_held_query_rests_from_the_first_moment_without_a_trigger_after_the_pause(looks) -> None:
    log: list[str] = []
    assert queries.rest(PlayedQuery(looks, log), pause=lambda: log.append("pause"))
    assert log[0] == "pause" and log[-1] == "idle" and log.count("idle") == 1


@given(LOOKS)
def test_a_stopped_query_is_drained_after_three_looks_without_a_batch(looks) -> None:
    log: list[str] = []
    assert queries.stop(PlayedQuery(looks, log), pause=lambda: log.append("pause"))
    assert (log[0], log[-1]) == ("pause", "stop") and "batch" not in log[-4:]


def test_a_query_with_a_batch_that_does_not_end_is_not_at_rest() -> None:
    assert not queries.rest(PlayedQuery([BATCH] * 1_000_000, []), pause=lambda: None, drain_s=0.01)
    assert not queries.stop(PlayedQuery([BATCH] * 1_000_000, []), pause=lambda: None, drain_s=0.01)
