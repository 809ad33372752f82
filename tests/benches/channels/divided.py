"""Measure what division costs: threads of a bundle, and the parts of a stream. Run by ``run.py``."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from workers.engine.channels import keys
from workers.engine.channels import spark_channels as channel_spark

if TYPE_CHECKING:
    from .rig import Bench

EVENTS_PER_S = 400
LOCAL = "local"  # Spark's scratch files, below the bench's folder


def threads(
    bench: Bench, *, counts: tuple[int, ...] = (1, 2, 4), warm_s: float = 5, seconds: float = 8
) -> dict[str, float]:
    """CPU and time of a batch whose task, in SQL or in Python, works on several threads; and files left on the disk.

    Parameters
    ----------
    bench : Bench
        The broker and driver that are measured.
    counts : tuple[int, ...], optional
        Numbers of threads to try.
    warm_s : float, optional
        How long nothing is measured first, in seconds.
    seconds : float, optional
        How long is measured, in seconds.
    """
    figures: dict[str, float] = {}
    for kind in ("sql", "python"):
        for count in counts:
            name = f"{kind}_{count}"
            source = bench.start(bench.source(f"s{name}", f"t{name}", rate_per_s=EVENTS_PER_S), f"s{name}")
            stream = channel_spark.read_channels(
                bench.spark, bench.config, inputs=[[f"s{name}.0"]], reader=f"t{name}", threads=count
            )
            if kind == "python":
                stream = stream.mapInArrow(lambda batches: batches, stream.schema)
            events = channel_spark.gather(stream, threads=count)
            query = bench.start(bench.publish(events, f"t{name}"), f"t{name}")
            bench.wait_for(f"t{name}", 1)
            time.sleep(warm_s)
            first, cpu, taken_ms = query.lastProgress["batchId"], bench.cpu_s(), {}
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                progress = query.lastProgress
                taken_ms[progress["batchId"]] = progress["durationMs"].get("addBatch", 0)
                time.sleep(0.05)
            batches = query.lastProgress["batchId"] - first
            figures[f"{name}_cpu_ms"] = round(1000 * (bench.cpu_s() - cpu) / batches)
            figures[f"{name}_batch_ms"] = sorted(taken_ms.values())[len(taken_ms) // 2]
            bench.stop([source, query])
    figures["shuffle_files"] = _files(bench)
    return figures


def routes(bench: Bench, *, counts: tuple[int, ...] = (1, 4, 16), events: int = 1_000_000) -> dict[str, float]:
    """CPU of publishing a stream to one part, and dealt out to several."""
    figures: dict[str, float] = {}
    for index, count in enumerate((counts[0], *counts)):  # the first is the compiler's warm-up
        name = f"r{index}"
        ticks = channel_spark.read_ticks(bench.spark, bench.config, name=name, rate_per_s=1e9, limit=events)
        bundles = [f"b{bundle}" for bundle in range(count)]
        for bundle in bundles:
            part = keys.part(f"{name}.0", bundle)
            bench.channels.open_channel(part, schema_json=ticks.schema.json(), capacity=100_000)
        bench.channels.route(name, 0, "b0", dict.fromkeys(bundles, 1.0), from_batch=0)
        fence = bench.channels.take_fence(f"{name}.0")
        frame = channel_spark.valve(ticks, bench.config, fragment=name, position=0, channel=f"{name}.0", fence=fence)
        cpu = bench.cpu_s()
        query = bench.start(frame, name)
        bench.wait_for(name, events)
        bench.stop([query])
        figures[f"cpu_s_per_million_{count}_parts"] = round((bench.cpu_s() - cpu) / events * 1e6, 2)
    return figures


def _files(bench: Bench) -> int:
    """Files that Spark holds in its scratch folder at the moment."""
    return sum(len(files) for _, _, files in os.walk(bench.folder / LOCAL))
