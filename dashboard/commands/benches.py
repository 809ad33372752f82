"""The measurements that `./weir bench` knows, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bench:
    """A measurement: ``run`` is ``"package.module:function"``, which takes the arguments and returns an exit code."""

    name: str
    doc: str
    run: str


_ALL = (
    Bench(
        "reuse-on-spark", "Overlapping dataflows apart and merged: CPU, tasks, events/s, latency, equal outputs.",
        "workers.benches.reuse_on_spark:main",
    ),
    Bench(
        "reuse-traces", "Default against Reuse along traces of 35 scientific and 21 IoT dataflows; on Spark if asked.",
        "workers.benches.reuse_traces:main",
    ),
    Bench(
        "reuse-planning", "Planning 50 tasks into up to 100,000, against matching by ancestors and by isomorphism.",
        "dashboard.benches.reuse_planning:main",
    ),
    Bench(
        "schedules", "Slots by each pair of allocation and mapping, planning thousands of tasks; --on-spark: planned, "
        "predicted and actual rates.",
        "workers.benches.schedules:main",
    ),
    Bench(
        "profiles", "Task types measured on a slot of this machine: peak rate, CPU and memory by threads.",
        "workers.benches.profiles:main",
    ),
    Bench(
        "shipped-profiles", "The profiles that come with Weir: two short trials of each task type of the library.",
        "workers.benches.shipped_profiles:main",
    ),
    Bench(
        "what-if", "How soon the page of schedules answers while its slider moves: in process and over HTTP.",
        "dashboard.benches.what_if:main",
    ),
    Bench(
        "live", "1,000 people watch pages live: how soon each hears of a change, CPU and memory of the site.",
        "dashboard.benches.live:main",
    ),
    Bench("site-cpu", "What the site takes for itself with 100 dataflows, without a page open and with ten.",
          "dashboard.benches.site_cpu:main"),
    Bench("crowd", "300 proposals wait while 50 people write: how long an approval takes, and what is refused.",
          "dashboard.benches.crowd:main"),
    Bench("channels", "A hop's latency, throughput, idle CPU, restart, many queries.",
          "workers.benches.channels.run:main"),
    Bench("engine", "An idle estate, a query's restart from its checkpoint, 40 queries in a slot.",
          "workers.benches.engine:main"),
    Bench("cluster", "Batches on a Spark cluster's executors, against those of a local slot, in turn.",
          "workers.benches.cluster:main"),
    Bench("handover", "Queries fused, moved and cut: how long an output stands still, what others in the slots notice.",
          "workers.benches.handover.command:main"),
    Bench("migration", "Schemes of moving queries, from Storm's to ours: seconds of degradation, throughput, outputs.",
          "workers.benches.migration.command:main"),
    Bench("links", "What a node notices of its link to the broker: a relay, or a network namespace.",
          "workers.benches.links:main"),
    Bench("prices", "What plans say that dataflows take, against what a slot takes for them.",
          "workers.benches.prices:main"),
    Bench("recovery", "A driver is killed: how soon events flow again, with a spare driver and without.",
          "workers.benches.recovery:main"),
    Bench("latency-cost", "40 small dataflows under one latency limit after the other: cores, latencies, limits met.",
          "dashboard.benches.latency_cost:main"),
    Bench("overhead", "A dataflow as a query of Weir against the same operators by hand: CPU of an event, peak rate.",
          "workers.benches.overhead:main"),
    Bench("video", "A video job with real frames: stacked latency unoptimised, with batches, with chains.",
          "workers.benches.video:main"),
    Bench("online-deployment", "Online task deployment, simulated: use of slots, traffic between nodes, rounds.",
          "workers.benches.online_deployment:main"),
    Bench("connectors", "Events/s and CPU of an event by connector, against the client library alone; idle connectors.",
          "workers.benches.connectors:main"),
    Bench("health", "A driver is killed, and one's JVM frozen: after how many seconds that is said.",
          "dashboard.benches.health:main"),
    Bench("isolation", "Two teams share a source, and one's dataflow is too slow: the other's rate and outputs.",
          "workers.benches.isolation:main"),
    Bench("growth", "What grows while dataflows run, by part, and what that comes to in a week.",
          "dashboard.benches.growth:main"),
    Bench("history", "A history of 5,000 series: CPU of keeping it, MB a day, how soon a day of one series is read.",
          "dashboard.benches.history:main"),
)
BENCHES: dict[str, Bench] = {bench.name: bench for bench in _ALL}
