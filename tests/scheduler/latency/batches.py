"""Batches of writers and readers one after the other, played event by event: what a plan of intervals comes to.

Independent of `scheduler.latency`: nothing of its formulas is used, only when a batch begins and what it takes. A
source has a batch every interval. A reader begins when a block is there, at the soonest nine tenths of its interval
after its last batch began (decision 0069), and takes all blocks that are there; a block comes when its writer's batch
is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from scheduler.latency.triggers import BatchCost

SLACK = 0.1
MOST_BATCHES, LEAST_BATCHES = 10_000, 30  # of the quickest query of a path, and of the slowest one all the same
Ages = list[tuple[float, float]]  # pairs of seconds and how many events that is of
Block = tuple[float, float, dict[tuple[str, ...], Ages]]  # when it is written, its events, and when they were born


def played(
    costs: Mapping[str, BatchCost], reads: Mapping[str, Sequence[str]], interval_s: Mapping[str, float],
    paths: Sequence[Sequence[str]], rng: Random, *, batches: int = 120,
) -> list[Ages]:
    """For each path, pairs of how old events are at its end, and how many of them are.

    Parameters
    ----------
    costs, reads, interval_s
        As of a plan; queries are named in an order in which writers come before their readers. Those that are on no
        path are not played.
    paths : sequence of sequence of str
        From a source on.
    rng : Random
        When each source begins.
    batches : int, optional
        Of the slowest query, that are played.
    """
    played_s = [interval_s[query] for path in paths for query in path]
    end_s = min(batches * max(played_s), max(MOST_BATCHES * min(played_s), LEAST_BATCHES * max(played_s)))
    blocks: dict[str, list[Block]] = {}
    for query, cost in costs.items():
        writers = reads.get(query, ())
        wanted = {tuple(path[: path.index(query) + 1]) for path in paths if query in path}
        if not wanted:
            continue
        made = blocks[query] = []
        if not writers:
            begins_s = last_s = rng.uniform(0, interval_s[query])
            done_s = 0.0
            while begins_s < end_s:
                events = cost.rate_per_s * (begins_s - last_s)
                done_s = begins_s + cost.batch_s + cost.event_s * events
                born = [((begins_s + last_s) / 2, begins_s - last_s)]
                made.append((done_s, events, {path: born for path in wanted}))
                last_s, begins_s = begins_s, max(begins_s + interval_s[query], done_s)
            continue
        coming = sorted(
            ((at_s, events / (sum(costs[name].rate_per_s for name in writers) or 1.0), born)
             for writer in writers for at_s, events, born in blocks[writer]), key=lambda block: block[0])
        at, free_s, due_s = 0, 0.0, 0.0
        while at < len(coming):
            begins_s = max(coming[at][0], free_s, due_s)
            taken = []
            while at < len(coming) and coming[at][0] <= begins_s:
                taken.append(coming[at])
                at += 1
            events = cost.rate_per_s * sum(part for _, part, _ in taken)
            free_s = begins_s + cost.batch_s + cost.event_s * events
            due_s = begins_s + (1 - SLACK) * interval_s[query]
            born = {path: [pair for block in taken for pair in block[2].get(path[:-1], ())] for path in wanted}
            made.append((free_s, events, born))
    aged = []
    for path in paths:
        aged.append([(done_s - at_s, weight) for done_s, _, born in blocks[path[-1]] for at_s, weight in born[
            tuple(path)] if 0.1 * end_s < at_s < 0.9 * end_s])
    return aged


def mean_s(aged: Ages) -> float:
    """Of all events alike."""
    return sum(age_s * weight for age_s, weight in aged) / sum(weight for _, weight in aged)
