"""How soon adaptation scales a keyed word count out while its rate rises, on a whole system with Spark slots.

``replay`` gives the words of a real text, whose recorded times make the rate rise step by step. A task that is divided
by key counts them and takes two milliseconds for each word without taking a core (`slow_count`), so that two cores
carry more bundles than they are. Its schedule is for the first rate. Adaptation acts, with a short cool-down, and does
the rest. The output is compared with counts in plain Python, word by word.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.engine.worker_settings import ROOT

from .latency_cost import system
from .real_text import words_of_text
from .recordings import BEGAN_MS
from .slow_count import offer_slow_count

SLOTS = 6
RECORDING = "words.parquet"  # below the replay folder of the data folder


def rising(rates: Sequence[float], *, step_s: float) -> Iterator[dict[str, Any]]:
    """A line for each rise from one rate (events/s) to the next, each of which lasts for so long."""
    words, times_ms = timed_words(rates, step_s=step_s)
    with tempfile.TemporaryDirectory(prefix="weir-rising-") as name:
        data = Path(name) / "data"
        (data / "replay").mkdir(parents=True)
        pq.write_table(pa.table({"word": words, "at": times_ms}), data / "replay" / RECORDING)
        python_path = os.pathsep.join([str(ROOT), offer_slow_count(Path(name) / "types")])
        more = {"PYTHONPATH": python_path, "WEIR_SLOT_READS": str(ROOT / "tests")}  # the type's code
        with system(data, slots=SLOTS, more=more) as environment, subprocess.Popen(
                (sys.executable, "-P", "-m", "tests.benches.rising_estate", str(step_s), *map(str, rates)), cwd=ROOT,
                env=environment, stdout=subprocess.PIPE, text=True) as estate:
            assert estate.stdout is not None
            yield from map(json.loads, estate.stdout)
    if estate.returncode:
        raise SystemExit(f"the estate ended with status {estate.returncode}")


def timed_words(rates: Sequence[float], *, step_s: float) -> tuple[list[str], list[int]]:
    """The words of the text and when each is due, in ms, evenly at one rate after the other."""
    times_ms = [
        BEGAN_MS + round(1000 * (step * step_s + number / rate))
        for step, rate in enumerate(rates) for number in range(round(step_s * rate))]
    return list(islice(cycle(words_of_text()), len(times_ms))), times_ms


def counts_of(words: Sequence[str]) -> list[int]:
    """Of each word, how often it has come so far.

    Examples
    --------
    >>> counts_of(["a", "b", "a"])
    [1, 1, 2]
    """
    counts, so_far = Counter[str](), []
    for word in words:
        counts[word] += 1
        so_far.append(counts[word])
    return so_far


class WrongCounts(RuntimeError):
    """What came out is not what plain Python counts."""


def require_counts(words: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> int:
    """How many rows there are: one for each word, with its number, each word's in order.

    Raises
    ------
    WrongCounts
        A row is missing, doubled, of another count, or out of its word's order. The first few are named.
    """
    expected = counts_of(words)
    seen = Counter(row["_seq"] for row in rows)
    wrong = [f"event {number} came {seen[number]} times" for number in range(len(words)) if seen[number] != 1]
    last: dict[str, int] = {}
    for row in rows:
        number, word = row["_seq"], row["word"]
        if (word, row["count"]) != (words[number], expected[number]):
            wrong.append(f"event {number} is “{words[number]}” for time {expected[number]}, and came as {word} for "
                         f"time {row['count']}")
        if row["count"] <= last.get(word, 0):
            wrong.append(f"event {number}, “{word}”, came out of order")
        last[word] = row["count"]
    if wrong:
        raise WrongCounts(f"{len(wrong)} of {len(words)} are wrong: {'; '.join(wrong[:5])}")
    return len(rows)
