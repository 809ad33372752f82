"""Measure a hop in real-time mode against micro-batches, turn by turn in one driver. Run by ``run.py``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product

from pyspark.sql import functions as F

from .rig import Bench, latencies, quantile

RATES_PER_S = (10, 100, 2_000)
ROUNDS = 2


def real_time(
    bench: Bench, *, rates_per_s: tuple[int, ...] = RATES_PER_S, rounds: int = ROUNDS, warm_s: float = 12,
    seconds: float = 20,
) -> dict[str, float]:
    """A source and a reader of it with two expressions: how long events take, and what CPU both queries do.

    Micro-batches follow one another as fast as they can, with a trigger of 0 ms and with that of the bench. Where the
    bench names how far apart groups of events begin, open batches alone are measured, with each of these.

    Parameters
    ----------
    bench : Bench
        The broker and driver that are measured.
    rates_per_s : tuple of int, optional
        Events per second, one after the other.
    rounds : int, optional
        How often each way is measured; figures are of all rounds together.
    warm_s : float, optional
        How long nothing is measured first, in seconds.
    seconds : float, optional
        How long is measured, in seconds.
    """
    ways = {
        "batches_0": _Way(trigger_ms=0), f"batches_{bench.trigger_ms}": _Way(trigger_ms=bench.trigger_ms),
        "real_time": _Way(),
    } if not bench.groups_ms else {f"groups_{apart_ms}": _Way(apart_ms=apart_ms) for apart_ms in bench.groups_ms}
    seen: dict[tuple[int, str], tuple[list[float], list[float], list[float]]] = {}
    for turn, rate_per_s, way in product(range(rounds), rates_per_s, ways):
        name = f"{way}{rate_per_s}r{turn}"
        hops, whole, cores = seen.setdefault((rate_per_s, way), ([], [], []))
        more = _measure(bench, name, ways[way], rate_per_s=rate_per_s, warm_s=warm_s, seconds=seconds)
        hops += more[0]
        whole += more[1]
        cores.append(more[2])
    figures: dict[str, float] = {}
    for (rate_per_s, way), (hops, whole, cores) in seen.items():
        figures |= {
            f"{way}@{rate_per_s}_hop_p50_ms": quantile(hops, 50), f"{way}@{rate_per_s}_hop_p99_ms": quantile(hops, 99),
            f"{way}@{rate_per_s}_whole_p50_ms": quantile(whole, 50),
            f"{way}@{rate_per_s}_whole_p99_ms": quantile(whole, 99),
            f"{way}@{rate_per_s}_cores": round(sum(cores) / len(cores), 3)}
    return figures


@dataclass(frozen=True, slots=True)
class _Way:
    """Micro-batches with a trigger; without one open batches, whose groups of events begin so far apart, or as soon as
    they can."""

    trigger_ms: int | None = None
    apart_ms: int | None = None


def _measure(
    bench: Bench, name: str, way: _Way, *, rate_per_s: float, warm_s: float, seconds: float
) -> tuple[list[float], list[float], float]:
    is_open, first, second = way.trigger_ms is None, f"{name}a", f"{name}b"
    source = bench.source(first, second, rate_per_s=rate_per_s, real_time=is_open)
    events = bench.copy(second, first, real_time=is_open).withColumn("x", F.col("_seq") * 2).where("x % 20 != 7")
    if way.apart_ms is not None:
        for fragment in (first, second):
            bench.channels.pace(fragment, way.apart_ms)
    before = bench.trigger_ms
    bench.trigger_ms = way.trigger_ms or 0
    queries = [bench.start(source, first, real_time=is_open), bench.start(events, second, real_time=is_open)]
    bench.trigger_ms = before
    time.sleep(warm_s)
    begun_ms, cpu_s = time.time() * 1000, bench.cpu_s()
    time.sleep(seconds)
    cores = (bench.cpu_s() - cpu_s) / seconds
    bench.stop(queries)
    written, read = bench.written_ms(first), bench.written_ms(second)
    hops = [read[seq] - at for seq, at in written.items() if seq in read and at > begun_ms]
    return hops, latencies(bench, second, begun_ms), cores
