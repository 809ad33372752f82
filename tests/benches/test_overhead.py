"""What Weir adds is newest from runs in pairs; every flow of the bench is a chain that its types allow."""

from __future__ import annotations

import pytest

from tests.benches.overhead import BY_HAND, CLOSED, FLOWS, WEIR, Run, chain_of, compared, followed
from workers.library.registry import check, task_types


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_is_a_chain_of_known_types_and_sound_configs(flow: str) -> None:
    tasks = chain_of(flow, rate_per_s=100.0)

    assert [task_types()[task.type].kind for task in (tasks[0], tasks[-1])] == ["source", "sink"]
    assert all(check(task_types()[task.type], task.config) is None for task in tasks)


def test_sides_are_held_against_by_hand_round_by_round() -> None:
    calm = {BY_HAND: [Run(1.0, 1_000, 0.5), Run(2.0, 1_000, 0.5)], WEIR: [Run(1.1, 1_000, 0.5), Run(2.2, 1_000, 0.5)],
            CLOSED: [Run(1.0, 1_000, 0.5)] * 2}
    saturated = {BY_HAND: [Run(1.0, 2_000, 1.0)] * 2, WEIR: [Run(1.0, 1_600, 1.0)] * 2,
                 CLOSED: [Run(1.0, 2_000, 1.0)] * 2}
    rows = {row["side"]: row for row in compared(calm, saturated)}

    assert rows[WEIR]["more CPU"] == "+10%"
    assert rows[WEIR]["lower peak"] == "+25%"
    assert rows[BY_HAND]["more CPU"] == rows[BY_HAND]["lower peak"] == "+0%"
    assert rows[WEIR]["peak events/s"] == 1_600


def test_each_batch_counts_once_and_the_one_under_way_does_not() -> None:
    def progress(batch: int, events: int) -> dict:
        return {"batchId": batch, "numInputRows": events, "durationMs": {"triggerExecution": 300, "latestOffset": 100}}

    newest = [progress(4, 10), progress(4, 10), progress(5, 20), progress(5, 20), progress(6, 30), progress(6, 30)]
    events, busy_s, batches = followed(lambda: newest.pop(0) if len(newest) > 1 else newest[0], seconds=0.3)

    assert (events, busy_s, batches) == (50, pytest.approx(0.4), 2)


def test_a_run_without_two_batches_goes_on_until_there_are_two() -> None:
    def progress(batch: int) -> dict:
        return {"batchId": batch, "numInputRows": 10, "durationMs": {"triggerExecution": 300, "latestOffset": 100}}

    newest = [progress(4), progress(4), progress(5), progress(5), progress(6), progress(7)]
    result = followed(lambda: newest.pop(0) if len(newest) > 1 else newest[0], seconds=0.001, longest_s=60)

    assert result == (20, pytest.approx(0.4), 2)
    assert followed(lambda: progress(4), seconds=0.001, longest_s=0.05) == (0, 0, 0)
