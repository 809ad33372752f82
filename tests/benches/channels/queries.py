"""Measure what queries on channels cost: idle, restarted, many of them, and after many starts.

Run by ``tests.benches.channels.run``.
"""

from __future__ import annotations

import time

import numpy as np

from .rig import EVENTS_PER_S, Bench, family, memory, quantile


def idle(bench: Bench, *, queries: int = 10, seconds: float = 15) -> dict[str, float]:
    """What queries cost that read channels on which nothing arrives."""
    schema = bench.source("is", "nobody", rate_per_s=1).schema.json()
    running = []
    for index in range(queries):
        bench.channels.open_channel(f"ie{index}.0", schema_json=schema, readers=[f"ir{index}"])
        running.append(bench.start(bench.copy(f"ir{index}", f"ie{index}"), f"ir{index}"))
    time.sleep(15)
    cpu = bench.cpu_s()
    time.sleep(seconds)
    cores = (bench.cpu_s() - cpu) / seconds
    bench.stop(running)
    return {"queries": queries, "cores": round(cores, 3)}


def restart(bench: Bench, *, times: int = 5) -> dict[str, float]:
    """Seconds to stop a query and start it from its checkpoint, until its first block; a warm driver."""
    source = bench.start(bench.source("ra", "rb", rate_per_s=100), "ra")
    query = bench.start(bench.copy("rb", "ra"), "rb")
    bench.wait_for("rb", 100)
    stops, wholes = [], []
    for _ in range(times):
        time.sleep(1)
        begun = time.monotonic()
        query.stop()
        stops.append(time.monotonic() - begun)
        last = bench.channels.info("rb.0").last
        query = bench.start(bench.copy("rb", "ra"), "rb")
        while bench.channels.info("rb.0").last == last:
            time.sleep(0.005)
        wholes.append(time.monotonic() - begun)
    bench.stop([source, query])
    return {"stop_s": round(float(np.median(stops)), 3), "stop_and_start_s": round(float(np.median(wholes)), 3),
            "worst_s": round(max(wholes), 3)}


def many(bench: Bench, *, queries: int = 40, seconds: float = 20) -> dict[str, float]:
    """Forty queries with a Python stage each in one driver: processes, memory, CPU."""
    running = [bench.start(bench.source("ma", "m0", rate_per_s=EVENTS_PER_S), "ma")]
    bench.channels.register_readers("ma.0", [f"m{index}" for index in range(queries)])
    for index in range(queries):
        running.append(bench.start(bench.copy(f"m{index}", "ma", python_stage=True), f"m{index}"))
    time.sleep(30)
    begun_ms, cpu = time.time() * 1000, bench.cpu_s()
    time.sleep(seconds)
    cores = (bench.cpu_s() - cpu) / seconds
    python = [process for process in family() if "python" in process.name()]
    memory_mb = sum(memory(process) for process in family()) / 2**20
    bench.stop(running)
    before = bench.written_ms("ma")
    hops = [
        at - before[seq]
        for index in range(queries)
        for seq, at in bench.written_ms(f"m{index}").items()
        if before[seq] > begun_ms
    ]
    return {"queries": queries, "python_processes": len(python), "memory_mb": round(memory_mb),
            "cores": round(cores, 2), "hop_p50_ms": quantile(hops, 50), "hop_p99_ms": quantile(hops, 99)}


def leak(bench: Bench, *, times: int = 200) -> dict[str, float]:
    """Threads and open files of the driver before and after many starts and stops."""
    source = bench.start(bench.source("la", "lb", rate_per_s=200), "la")

    def cycles(count: int) -> None:
        for _ in range(count):
            query = bench.start(bench.copy("lb", "la"), "lb")
            last = bench.channels.info("lb.0").last
            while bench.channels.info("lb.0").last == last:
                time.sleep(0.01)
            query.stop()

    cycles(10)
    jvm = next(process for process in family() if "java" in process.name())
    before = jvm.num_threads(), jvm.num_fds()
    cycles(times)
    after = jvm.num_threads(), jvm.num_fds()
    bench.stop([source])
    return {"starts": times, "threads_before": before[0], "threads_after": after[0], "files_before": before[1],
            "files_after": after[1]}
