"""Sentences of real text, and what a word count over them gives: a reference that knows nothing of Spark. Pure."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ENDS = re.compile(r"[.!?:;|\n]+")
_WORD = re.compile(r"[a-z]+")
SHORTEST = 4  # words: shorter pieces are headings and cells of tables


def sentences_of(texts: Iterable[str]) -> list[str]:
    """The sentences of texts: words in small letters, with a space between."""
    pieces = (piece for text in texts for piece in _ENDS.split(text.lower()))
    words = (_WORD.findall(piece) for piece in pieces)
    return [" ".join(sentence) for sentence in words if len(sentence) >= SHORTEST]


def picked(sentences: Sequence[str], *, count: int, chance: random.Random) -> list[str]:
    """So many of them at random, as the paper takes them from a novel."""
    return chance.choices(sentences, k=count)


@dataclass(frozen=True, slots=True)
class Count:
    """How often a word came in one window, and the number of the sentence with the last of them."""

    start_ms: int
    word: str
    times: int
    seq: int


def counts(sentences: Sequence[str], *, begin_ms: int, gap_ms: int, window_ms: int, until_ms: int) -> Iterator[Count]:
    """What a word count over tumbling windows gives of sentences that are repeated without end.

    Parameters
    ----------
    sentences : sequence of str
        In the order in which they come.
    begin_ms : int
        When the first one comes, in ms since the epoch.
    gap_ms : int
        Milliseconds between two.
    window_ms : int
        How long a window is.
    until_ms : int
        Windows that end later are left out.

    Yields
    ------
    Count
        Window after window, in each by word.
    """
    number, start_ms = 0, begin_ms - begin_ms % window_ms
    while start_ms + window_ms <= until_ms:
        times: Counter[str] = Counter()
        last: dict[str, int] = {}
        while begin_ms + number * gap_ms < start_ms + window_ms:
            words = sentences[number % len(sentences)].split(" ")
            times.update(words)
            last.update(dict.fromkeys(words, number))
            number += 1
        yield from (Count(start_ms, word, times[word], last[word]) for word in sorted(times))
        start_ms += window_ms


@dataclass(frozen=True, slots=True)
class Comparison:
    """An output against its reference: events that should have come, and those that are missing, come again, say
    something else, or come before an earlier window's. ``usual_per_s`` is the rate at which they should come."""

    usual_per_s: float = 0.0
    events: int = 0
    lost: int = 0
    doubled: int = 0
    altered: int = 0
    disordered: int = 0

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def is_equal(self) -> bool:
        return not (self.lost or self.doubled or self.altered or self.disordered)


def compared(
    output: Sequence[Mapping[str, Any]], sentences: Sequence[str], *, gap_ms: int, window_ms: int
) -> Comparison:
    """Compare a lane's output with the reference, event by event, up to its last window.

    When its source began follows from any of its events: each says the number and the time of the last sentence in it.

    Parameters
    ----------
    output : sequence of mapping
        In the order of the channel.
    sentences : sequence of str
        The lane's.
    gap_ms : int
        Milliseconds between two sentences.
    window_ms : int
        How long a window is.
    """
    if not output:
        return Comparison()
    begin_ms = output[0]["_time"] - output[0]["_seq"] * gap_ms
    until_ms = max(event["window_start"] for event in output) + window_ms
    wanted = {
        (count.start_ms, count.word): (count.times, count.seq)
        for count in counts(sentences, begin_ms=begin_ms, gap_ms=gap_ms, window_ms=window_ms, until_ms=until_ms)}
    came = Counter((event["window_start"], event["word"]) for event in output)
    starts = [event["window_start"] for event in output]
    windows = len({start_ms for start_ms, _ in wanted})
    return Comparison(
        usual_per_s=1000 * len(wanted) / (windows * window_ms),
        events=len(wanted),
        lost=len(wanted.keys() - came.keys()),
        doubled=sum(times - 1 for times in came.values()) + len(came.keys() - wanted.keys()),
        altered=sum(wanted.get((event["window_start"], event["word"])) not in (None, (event["times"], event["_seq"]))
                    for event in output),
        disordered=sum(later < earlier for earlier, later in itertools.pairwise(starts)))
