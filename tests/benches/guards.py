"""Many guards over many streams in played time: CPU of evaluating, storing and restoring them, and memory."""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import psutil

from scheduler.guards.guard_compiling import CompiledElement, compile_element
from scheduler.guards.guard_values import GuardCatalog, GuardedAlternate, GuardedElement, GuardEvent
from tests.benches.guard_engine import GuardEngine

from .arguments import count
from .results import machine, table

BEGIN_MS = 1_767_225_600_000  # 2026-01-01
FIGURES = {"rate": "number", "latency": "number", "backlog": "number", "cpu": "number"}
# One after the other: {s} is the element's own stream, {o} another, {x} and {y} a high and a lower rate.
GUARDS = (
    "{s}.rate > {x}",
    "for_at_least({s}.rate > {x}, '30 s')",
    "mean({s}.rate, '5 min') > {x}",
    "latch({s}.rate > {x}, {s}.rate < {y})",
    "latch(mean({s}.rate, '1 min') > {x}, mean({s}.rate, '1 min') < {y})",
    "quantile({s}.latency, 0.95, '5 min') > {x} AND NOT hours('22:00', '06:00', 'Asia/Kolkata')",
    "followed_by({s}.rate > {x}, {s}.backlog > {y}, '2 min')",
    "{s}.rate > {x} AND {o}.cpu < 0.6",
    "max({s}.backlog, '10 min') > {x} OR rate_of_change({s}.rate, '1 min') > 2",
    "not_followed_by({s}.rate > {x}, count({s}, '10 s') = 0, '1 min') AND weekdays('mon', 'fri', 'Europe/Berlin')",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement and print its tables."""
    parser = argparse.ArgumentParser(prog="./weir bench guards", description=__doc__)
    parser.add_argument("--policies", type=count, default=10_000, help="how many guards (10000)")
    parser.add_argument("--streams", type=count, default=1_000, help="over how many streams (1000)")
    parser.add_argument("--seconds", type=count, default=900, help="how long, in played seconds (900)")
    parser.add_argument("--seed", type=int, default=1, help="of chance (1)")
    options = parser.parse_args(arguments)
    streams = [f"s{number}" for number in range(options.streams)]
    catalog = GuardCatalog(dict.fromkeys(streams, FIGURES))
    rng = random.Random(options.seed)
    began_s = time.process_time()
    elements = [compile_element(_element(number, streams, rng), catalog) for number in range(options.policies)]
    reading_s = time.process_time() - began_s
    engine, memory = GuardEngine(BEGIN_MS), psutil.Process().memory_info().rss
    for element in elements:
        engine.put(element.element.name, element)
    gc.collect()
    gc.freeze()  # as a process does that runs for long
    print(json.dumps(machine()), flush=True)
    rows, switches = [], 0
    parts = sorted({0, *(round(options.seconds * part / 5) for part in range(1, 6))})
    for begin_s, end_s in pairwise(parts):
        events = list(_events(streams, begin_s, end_s, options.seed))
        began_s, changes = time.process_time(), 0
        for event in events:
            changes += sum(change.is_switch for change in engine.take(event))
        took_s = time.process_time() - began_s
        switches += changes
        rows.append({"played s": f"{begin_s}–{end_s}", "events": len(events), "switches": changes,
                     "cores": took_s / (end_s - begin_s), "µs an event": 1e6 * took_s / len(events),
                     "µs a policy and event": 1e6 * took_s / len(events) / (options.policies / options.streams)})
    print(table(rows))
    print(table([_stored(engine, elements, reading_s, memory)]))
    print(f"{switches:,} switches.")
    return 0


def _element(number: int, streams: Sequence[str], rng: random.Random) -> GuardedElement:
    high = rng.randrange(105, 150)
    guard = GUARDS[number // len(streams) % len(GUARDS)].format(
        s=streams[number % len(streams)], o=rng.choice(streams), x=high, y=high - rng.randrange(5, 30))
    return GuardedElement(f"element-{number}", (GuardedAlternate("heavy", guard), GuardedAlternate("light")))


def _events(streams: Sequence[str], begin_s: int, end_s: int, seed: int) -> Iterator[GuardEvent]:
    """One event a second of each stream, in the order of time; figures wander around 100."""
    rng = random.Random(f"{seed} {begin_s}")
    level = {stream: 100 + 25 * rng.random() for stream in streams}
    for second in range(begin_s, end_s):
        for place, stream in enumerate(streams):
            level[stream] += rng.gauss(0, 4) - (level[stream] - 110) / 30
            rate = level[stream]
            yield GuardEvent(BEGIN_MS + second * 1000 + place * 1000 // len(streams), stream, {
                "rate": rate, "latency": rate * rng.uniform(0.8, 1.3), "backlog": max(0.0, rate - 20),
                "cpu": rng.random()})


def _stored(
    engine: GuardEngine, elements: Sequence[CompiledElement], reading_s: float, memory: int
) -> dict[str, float]:
    taken = psutil.Process().memory_info().rss - memory
    began_s = time.process_time()
    texts = [json.dumps(engine.state_of(element.element.name)) for element in elements]
    storing_s, began_s = time.process_time() - began_s, time.process_time()
    again = GuardEngine(engine.now_ms)
    for element, text in zip(elements, texts, strict=True):
        again.put(element.element.name, element, state=json.loads(text))
    per = 1e6 / len(elements)
    return {"µs to read a policy": per * reading_s, "µs to store": per * storing_s,
            "µs to restore": per * (time.process_time() - began_s),
            "bytes stored": sum(map(len, texts)) / len(texts), "longest": max(map(len, texts)),
            "KiB of memory a policy": taken / 1024 / len(elements)}


if __name__ == "__main__":
    sys.exit(main())
