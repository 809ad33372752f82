"""The simulation ends, and says what the paper's figures are about."""

from __future__ import annotations

import random

import pytest

from scheduler.deployment.online import Thresholds, decide
from tests.benches.online_deployment import computing, decision_s, growth, settled, talking

THRESHOLDS = Thresholds(high=0.95, low=0.9, margin=0.0, score_change=10.0)


@pytest.mark.parametrize("seed", range(3))
def test_use_rises_and_traffic_between_nodes_falls(seed: int) -> None:
    busy, chatty = computing(4, chance=random.Random(seed)), talking(4, chance=random.Random(seed))
    busy_after, rounds = settled(busy, THRESHOLDS)
    chatty_after, _ = settled(chatty, THRESHOLDS)

    assert 0 < rounds < 100
    assert busy_after.use > busy.use
    assert chatty_after.share_between_nodes < 0.06, "as published"
    assert decide(busy_after, THRESHOLDS).move is None


def test_a_row_for_each_number_of_nodes() -> None:
    assert [row["nodes"] for row in growth([2, 3], seeds=[1])] == [2, 3]
    assert len(decision_s(200, 20, repeats=3)) == len(decision_s(200, 20, repeats=3, score_change=1e9)) == 3
