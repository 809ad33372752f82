"""Measure what a channel costs an event: a hop, the most that passes, a valve. Run by ``run.py``."""

from __future__ import annotations

import time

from workers.engine.channels import spark_channels as channel_spark

from .rig import EVENTS_PER_S, Bench, latencies, quantile

FRAGMENT_PAIRS = 5


def hop(bench: Bench, *, pairs: int = FRAGMENT_PAIRS, warm_s: float = 20, seconds: float = 20) -> dict[str, float]:
    """A hop: from when one fragment wrote an event to when the next one did, with ``2 × pairs`` queries running.

    Parameters
    ----------
    bench : Bench
        The broker and driver that are measured.
    pairs : int, optional
        Pairs of fragments that run.
    warm_s : float, optional
        How long nothing is measured first, in seconds.
    seconds : float, optional
        How long is measured, in seconds.
    """
    queries = []
    for index in range(pairs):
        queries.append(bench.start(bench.source(f"ha{index}", f"hb{index}", rate_per_s=EVENTS_PER_S), f"ha{index}"))
        queries.append(bench.start(bench.copy(f"hb{index}", f"ha{index}"), f"hb{index}"))
    time.sleep(warm_s)
    begun_ms, cpu = time.time() * 1000, bench.cpu_s()
    time.sleep(seconds)
    cores = (bench.cpu_s() - cpu) / seconds
    bench.stop(queries)
    hops, whole = [], []
    for index in range(pairs):
        before, after = bench.written_ms(f"ha{index}"), bench.written_ms(f"hb{index}")
        hops += [after[seq] - at for seq, at in before.items() if seq in after and at > begun_ms]
        whole += latencies(bench, f"hb{index}", begun_ms)
    return {
        "queries": 2 * pairs, "events": len(hops), "hop_p50_ms": quantile(hops, 50), "hop_p99_ms": quantile(hops, 99),
        "end_to_end_p50_ms": quantile(whole, 50), "end_to_end_p99_ms": quantile(whole, 99), "cores": round(cores, 2),
    }


def throughput(bench: Bench, *, events: int = 2_000_000) -> dict[str, float]:
    """Events a second from a source through a channel to a second fragment's own channel."""
    queries = [bench.start(bench.source("ta", "tb", rate_per_s=1e9, limit=events), "ta")]
    queries.append(bench.start(bench.copy("tb", "ta"), "tb"))
    bench.wait_for("tb", 1)
    begun, cpu, counted = time.monotonic(), bench.cpu_s(), int(bench.channels.meters("tb")["0:n"])
    bench.wait_for("tb", events)
    seconds, cpu = time.monotonic() - begun, bench.cpu_s() - cpu
    bench.stop(queries)
    return {"events": events, "events_per_s": round((events - counted) / seconds),
            "cpu_s_per_million": round(cpu / (events - counted) * 1e6, 2)}


def valve(bench: Bench, *, events: int = 5_000_000, valves: int = 5) -> dict[str, float]:
    """CPU that a closed valve adds to an event that passes it; CPU, not time, so that a busy machine matters less."""

    def cpu_s(fragment: str, count: int) -> float:
        ticks = channel_spark.read_ticks(bench.spark, bench.config, name=fragment, rate_per_s=1e9, limit=events)
        for position in range(count):
            ticks = channel_spark.valve(
                ticks, bench.config, fragment=fragment, position=position, channel=f"{fragment}.{position}", fence=0
            )
        begun = bench.cpu_s()
        query = bench.start(ticks, fragment)
        done = f'"next":{events}'
        while not (query.lastProgress and done in str(query.lastProgress["sources"][0].endOffset).replace(" ", "")):
            time.sleep(0.1)
        bench.stop([query])
        return bench.cpu_s() - begun

    cpu_s("vw", valves)  # the compiler's warm-up
    without, with_valves = cpu_s("v0", 0), cpu_s("v1", valves)
    return {"events": events, "ns_per_event_and_valve": round((with_valves - without) / events / valves * 1e9)}
