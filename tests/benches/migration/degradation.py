"""What an output's blocks say of moves: seconds at each level of degradation, throughput, and pauses. Pure.

Degradation is what paper [4] counts: by how much a second's rate is below the mean rate of a run without moves. That
rate is known here, for the text and its pace are: what a busy machine makes late is no part of it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LEVELS = (0.2, 0.4, 0.6, 0.8, 1.0)
SECOND_MS = 1_000


@dataclass(frozen=True, slots=True)
class Block:
    """A block of an output: when it was written (ms since the epoch), and how many events it has."""

    written_ms: int
    events: int


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in ms since the epoch; what is moved at its beginning, where anything is."""

    began_ms: int
    ended_ms: int
    moved: tuple[int, ...] = ()  # the lanes of the bundles, one for each bundle

    @property
    def seconds(self) -> int:
        return (self.ended_ms - self.began_ms) // SECOND_MS


def rates(blocks: Iterable[Block], span: Span) -> list[int]:
    """Events in each whole second of a span, of all outputs together."""
    seconds = [0] * span.seconds
    for block in blocks:
        number = (block.written_ms - span.began_ms) // SECOND_MS
        if 0 <= number < len(seconds):
            seconds[number] += block.events
    return seconds


def degraded(seconds: Sequence[int], usual_per_s: float) -> dict[float, int]:
    """How many seconds are degraded by each level or more; at 1, those in which nothing came."""
    return {
        level: sum(rate <= (1 - level) * usual_per_s + 1e-9 for rate in seconds) if level < 1
        else sum(rate == 0 for rate in seconds)
        for level in LEVELS}


def silence_ms(blocks: Iterable[Block], span: Span) -> int:
    """The longest time within a span in which an output stood still."""
    inside = sorted(block.written_ms for block in blocks if span.began_ms < block.written_ms < span.ended_ms)
    times = [span.began_ms, *inside, span.ended_ms]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def figures(
    outputs: Mapping[int, Sequence[Block]], quiet: Sequence[Span], spans: Sequence[Span], *, usual_per_s: float
) -> dict[str, object]:
    """What some moves cost.

    Parameters
    ----------
    outputs : mapping of int to sequence of Block
        By lane, all blocks of its output.
    quiet : sequence of Span
        Time without moves: what the machine does by itself.
    spans : sequence of Span
        From each move to the next.
    usual_per_s : float
        Events/s of all outputs together, where nothing is late.

    Returns
    -------
    dict
        ``degraded_s`` by level (as text), of ``seconds``; the rates of these seconds one after the other; throughput
        and what is usual, in events/s; pauses of the moved bundles in seconds, and the pauses that are usual.
    """
    blocks = [block for lane in outputs.values() for block in lane]
    usual = [rate for span in quiet for rate in rates(blocks, span)]
    seconds = [rates(blocks, span) for span in spans]
    every = [rate for span_rates in seconds for rate in span_rates]
    pauses = [silence_ms(outputs[lane], span) / SECOND_MS for span in spans for lane in span.moved]
    usual_pauses = [silence_ms(lane, span) / SECOND_MS for span in quiet for lane in outputs.values()]
    return {
        "moves": len(spans), "seconds": len(every),
        "degraded_s": {str(level): count for level, count in degraded(every, usual_per_s).items()},
        "quiet_degraded_s": {str(level): count for level, count in degraded(usual, usual_per_s).items()},
        "quiet_seconds": len(usual), "usual_per_s": round(usual_per_s, 2),
        "throughput_per_s": round(statistics.fmean(every), 2) if every else 0.0,
        "pauses_s": pauses, "usual_pauses_s": usual_pauses, "rates_per_s": seconds}


def of_600(figure: Mapping[str, object], level: float) -> float:
    """Degraded seconds as they would be of 600 with ten moves, as published; all where moves take longer than that."""
    moves = int(figure["moves"])
    return min(600.0, 10 * figure["degraded_s"][str(level)] / moves) if moves else 0.0
