"""A driver that waits: its session is open and warm, and it serves no slot until it is told which."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.measuring.load import TreeLoad
from workers.engine.measuring.trial_host import codes_of
from workers.engine.spark.driver_warming import warm_up
from workers.engine.spark.pinning import pin_tree_to_core
from workers.engine.spark.rehearsal import Rehearsal, RehearsalContext
from workers.engine.spark.scratch import clear_spares, spare_folder
from workers.engine.spark.session import open_session
from workers.engine.worker_settings import Settings
from workers.library.registry import task_types

from ..agent_logs import logger
from ..node_files.node_store import NodeStore
from .broker_sync import connect
from .line_writer import LineWriter
from .pulse import Pulse
from .supervision import READY

AGAIN_S = 1.0  # it says so often that it is there


def wait_for_a_slot(settings: Settings, *, commands: TextIO, tell: LineWriter) -> tuple[str, SparkSession]:
    """Open and warm a session, wait for the line ``take <slot>``, and give the slot's index with the session.

    Where ``stop`` comes, or the input ends, before that, the process ends at once, whatever it was doing: nothing that
    it has begun is for anybody.
    """
    tell({"state": "starting"})
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(commands, orders), name="commands", daemon=True).start()
    node_folder = NodeStore(settings.data_dir, settings.node).folder
    clear_spares(node_folder)
    folder = spare_folder(node_folder)
    began_s = time.monotonic()
    conf = spark_conf(ChannelConfig.of(settings))
    spark = open_session(settings, slot=0, slot_dir=folder, channel_conf=conf, pin=False)
    warm_up(spark, folder / "scratch")
    tell({"state": "starting"})  # it is not silent: a rehearsal may take as long as all before it
    _rehearse(spark, settings, folder / "scratch")
    logger().info("spare is ready", took_ms=round(1000 * (time.monotonic() - began_s)))
    pulse = Pulse.of_driver(spark, tell)
    pulse.start()
    is_told = threading.Event()

    def keep_telling() -> None:
        while not is_told.is_set():
            tell({"state": READY})
            is_told.wait(AGAIN_S)

    teller = threading.Thread(target=keep_telling, name="spare", daemon=True)
    teller.start()
    slot = orders.get()
    is_told.set()
    teller.join()
    pulse.stop()
    pin_tree_to_core(settings, int(slot))
    return slot, spark


def _rehearse(spark: SparkSession, settings: Settings, folder: Path) -> None:
    """Do what a slot's driver does; without it this one would only be slower at first."""
    types = task_types()
    codes_of(types)  # read once in the life of a process
    stage = RehearsalContext(spark, connect(settings.redis_url), ChannelConfig.of(settings), types)
    load = TreeLoad(os.getpid())
    load.cpu_s()
    compilers_before_s = load.compilers_s
    try:
        batches = Rehearsal(stage, who=settings.node, folder=folder).run()
        cpu_s = load.cpu_s() + load.compilers_s - compilers_before_s
        logger().info("spare has rehearsed", batches=batches, cpu_s=round(cpu_s, 1))
    except Exception as error:
        logger().warning("the rehearsal failed", exc_info=error)


def _listen(commands: TextIO, orders: queue.SimpleQueue[str]) -> None:
    while line := commands.readline():
        word, _, slot = line.strip().partition(" ")
        if word == "take":
            orders.put(slot)
            return
        if word == "stop":
            break
    os._exit(0)
