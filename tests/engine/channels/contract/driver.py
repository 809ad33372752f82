"""A driver of its own, to be killed: ticks → channel a.0 → channel b.0, until it is.

Or ``real_time``, with open batches and without end. Or ``divided``, without end: a.0 is dealt out to the bundles b and
c, each of two threads, and d reads what both publish.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spark_channels import gather

from .rig import Rig, wait_until
from .session import open_session


def main(redis_url: str, jar_folder: str, folder: str, events: str, shape: str = "plain") -> None:
    """Start the queries from their checkpoints and wait for the end."""
    config = ChannelConfig(redis_url, data_dir=Path(jar_folder))
    rig = Rig(open_session(config), config, Channels.connect(redis_url), Path(folder))
    if shape == "divided":
        divided(rig, rig.ticks("a", rate_per_s=100, writes=("a.0",)))
    elif shape == "real_time":
        real_time(rig, rig.ticks("a", rate_per_s=200, writes=("a.0",), real_time=True))
    else:
        ticks = rig.ticks("a", rate_per_s=1_000, limit=int(events), writes=("a.0",))
        rig.start(rig.publish(ticks, "a", readers=("b",)), "a")
        rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    while True:
        for query in rig.queries:
            if (error := query.exception()) is not None:
                raise error
        time.sleep(0.2)


def real_time(rig: Rig, ticks: DataFrame) -> None:
    """A stream and a reader of it, both with open batches."""
    rig.start(rig.publish(ticks, "a", readers=("b",)), "a", real_time=True)
    events = rig.read("b", "a.0", writes=("b.0",), real_time=True).where("_seq % 3 != 0")
    rig.start(rig.publish(events, "b"), "b", real_time=True)


def divided(rig: Rig, ticks: DataFrame) -> None:
    """A stream that is dealt out to two bundles, and read from both as one."""
    rig.divide(ticks, "a", weights={"b": 0.7, "c": 0.3})
    start(rig, rig.valve(ticks, "a"), "a")
    for bundle in "bc":
        part = rig.read(bundle, [f"a.0@{bundle}"], threads=2)
        start(rig, rig.publish(gather(part, threads=2), bundle, readers=("d",)), bundle)
    start(rig, rig.publish(rig.read("d", ["b.0", "c.0"]), "d"), "d")


def start(rig: Rig, events: DataFrame, fragment: str) -> None:
    """Start a query and wait for its Python worker: Spark gives each ten seconds, however many begin at once."""
    query = rig.start(events, fragment)
    wait_until(  # one with a backlog never waits, but has done a batch
        lambda: query.lastProgress is not None or query.status["message"].startswith("Waiting"),
        what=f"{fragment}'s worker", alive=(query,))


if __name__ == "__main__":
    main(*sys.argv[1:])
