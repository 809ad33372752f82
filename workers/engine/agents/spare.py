"""A driver that waits: its session is open and warm, and it serves no slot until it is told which."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import SparkSession

from workers.engine.channels.config import ChannelConfig
from workers.engine.channels.spark import spark_conf
from workers.engine.settings import Settings
from workers.engine.spark.pinning import pin_tree_to_core
from workers.engine.spark.session import open_session
from workers.engine.spark.warm import warm_up

from .logs import logger
from .pulse import Pulse
from .store import NodeStore
from .supervision import READY, SPARE

AGAIN_S = 1.0  # it says so often that it is there


def wait_for_a_slot(settings: Settings, *, commands: TextIO, report_to: TextIO) -> tuple[str, SparkSession] | None:
    """Open and warm a session, wait for the line ``take <slot>``, and give the slot's index with the session.

    None where ``stop`` comes, or the input ends, before that.

    Parameters
    ----------
    settings : Settings
        The agent's settings.
    commands : TextIO
        What the agent says; what follows ``take`` is left in it.
    report_to : TextIO
        Where the agent listens: one JSON a line.
    """
    telling = threading.Lock()

    def tell(message: Mapping[str, Any]) -> None:
        with telling:
            report_to.write(json.dumps(message) + "\n")
            report_to.flush()

    tell({"state": "starting"})
    folder = own_folder(NodeStore(settings.data_dir, settings.node).folder)
    config = ChannelConfig(redis_url=settings.redis_url, data_dir=settings.data_dir, jar=settings.channels_jar)
    began_s = time.monotonic()
    spark = open_session(settings, slot=0, slot_dir=folder, channel_conf=spark_conf(config), pin=False)
    warm_up(spark, folder / "scratch")
    logger().info("spare is ready", took_ms=round(1000 * (time.monotonic() - began_s)))
    jvm = spark.sparkContext._jvm
    pulse = Pulse(lambda: jvm.java.lang.System.nanoTime(), tell)
    pulse.start()
    waiting = threading.Event()

    def keep_telling() -> None:
        while not waiting.is_set():
            tell({"state": READY})
            waiting.wait(AGAIN_S)

    teller = threading.Thread(target=keep_telling, name="spare", daemon=True)
    teller.start()
    slot = _told(commands)
    waiting.set()
    teller.join()
    pulse.stop()
    if slot is None:
        return None
    pin_tree_to_core(settings, int(slot))
    return slot, spark


def own_folder(node_folder: Path) -> Path:
    """A folder for scratch files of this process; those of spares that are gone are removed."""
    for folder in node_folder.glob(f"{SPARE}-*"):
        if not Path(f"/proc/{folder.name.removeprefix(f'{SPARE}-')}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = node_folder / f"{SPARE}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _told(commands: TextIO) -> str | None:
    while line := commands.readline():
        word, _, slot = line.strip().partition(" ")
        if word == "take":
            return slot
        if word == "stop":
            return None
    return None
