"""How far apart a query's batches begin, as its control says, while it runs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]

RATE_PER_S = 100
PACE_MS = 400


def sizes(rig: Rig, channel: str) -> list[int]:
    """How many events each batch has."""
    return [len(numbers) for _, numbers in sorted(rig.batches(channel).items())]


def test_batches_begin_so_far_apart_at_least_and_otherwise_as_soon_as_that_is_changed(rig: Rig) -> None:
    rig.channels.pace("a", PACE_MS)
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=RATE_PER_S), "a"), "a")
    wait_until(lambda: len(sizes(rig, "a.0")) > 5, what="six batches", alive=(query,))
    paced = sizes(rig, "a.0")
    # A source takes all that is due, so a batch of few events would have begun too soon. The first one does not count.
    assert min(paced[1:]) >= RATE_PER_S * PACE_MS / 1000 - 1

    rig.channels.pace("a", 600_000)
    run_id = query.runId
    wait_until(lambda: not query.status["isDataAvailable"], what="the last batch of the old pace", alive=(query,))
    before = len(sizes(rig, "a.0"))
    rig.channels.pace("a", 50)
    wait_until(lambda: len(sizes(rig, "a.0")) > before + 3, what="batches of the new pace", alive=(query,))
    assert query.runId == run_id, "the same query all the time"
    numbers = rig.numbers("a.0")
    assert numbers == list(range(len(numbers)))


def test_a_query_of_several_streams_has_one_pace_and_gets_every_event_of_each(rig: Rig) -> None:
    for number, name in enumerate("ab"):
        ticks = rig.ticks(name, rate_per_s=RATE_PER_S, limit=300)
        rig.start(rig.publish(ticks.withColumn("_seq", ticks["_seq"] + 1_000 * number), name, readers=("g",)), name)
    rig.channels.pace("g", PACE_MS)
    query = rig.start(rig.publish(rig.read("g", "a.0", "b.0"), "g"), "g")

    wait_until(lambda: len(rig.numbers("g.0")) == 600, what="both streams", alive=rig.queries)

    numbers = rig.numbers("g.0")
    assert [number for number in numbers if number < 1_000] == list(range(300))
    assert [number for number in numbers if number >= 1_000] == list(range(1_000, 1_300))
    # Three seconds of events: without a pace each block of a writer, of which there are dozens, would be a batch.
    assert len(sizes(rig, "g.0")) <= 3_000 / (0.9 * PACE_MS) + 3
    query.stop()


def test_a_pause_ends_the_waiting_for_the_next_batch(rig: Rig) -> None:
    rig.channels.pace("a", 600_000)
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=RATE_PER_S), "a"), "a")
    wait_until(lambda: sizes(rig, "a.0"), what="the first batch", alive=(query,))
    rig.channels.pause("a")
    wait_until(lambda: not query.status["isTriggerActive"], what="rest", alive=(query,))
    rig.channels.resume("a")
    rig.channels.pace("a", 0)
    wait_until(lambda: len(sizes(rig, "a.0")) > 2, what="more batches", alive=(query,))


@pytest.mark.parametrize(("queries", "work_ms"), [(20, 80), (5, 200), (2, 2_000), (10, 480), (10, 510)])
def test_batches_that_fall_together_part_and_nobody_waits_for_long(rig: Rig, queries: int, work_ms: int) -> None:
    interval_ms, for_ms = 5_000, 200_000
    batches = [tuple(batch) for batch in rig.probe.turns(queries, interval_ms, work_ms, for_ms)]
    begun = {query: [begin for other, begin, _ in batches if other == query] for query in range(queries)}
    assert {begins[0] for begins in begun.values()} == {0}, "all begin together"
    gaps = [after - before for begins in begun.values() for before, after in pairwise(begins)]
    assert min(gaps) >= interval_ms
    assert max(gaps) <= 1.25 * interval_ms + 1

    def took_ms(since_ms: int, until_ms: int) -> float:
        took = [end - begin for _, begin, end in batches if since_ms <= begin < until_ms]
        return sum(took) / len(took)

    assert took_ms(0, interval_ms) > 0.9 * queries * work_ms / 2, "they share the core"
    assert took_ms(for_ms // 2, for_ms) < 1.1 * work_ms, "as if each were alone"
