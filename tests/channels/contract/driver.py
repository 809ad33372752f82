"""A driver of its own, to be killed: ticks → channel a.0 → channel b.0, until it is."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from workers.channels.config import ChannelConfig
from workers.channels.registry import Channels
from workers.channels.spark import spark_conf

from .rig import Rig
from .session import open_session


def main(redis_url: str, implementation: str, jar_folder: str, folder: str, events: str) -> None:
    """Start both queries from their checkpoints and wait for the end."""
    config = ChannelConfig(redis_url, implementation, data_dir=Path(jar_folder))
    rig = Rig(open_session(spark_conf(config)), config, Channels.connect(redis_url), Path(folder))
    ticks = rig.ticks("a", rate_per_s=1_000, limit=int(events), gates=("a.0",))
    rig.start(rig.publish(ticks, "a", readers=("b",)), "a")
    rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
