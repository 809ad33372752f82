"""How a slot's driver ends: its JVM, or its cluster; and how a slot says that it cannot run at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from workers.engine.spark import cluster
from workers.engine.worker_settings import Settings

from ..agent_logs import logger
from .line_writer import LineWriter
from .supervision import CLUSTER_GONE, JVM_GONE, REFUSED

ENDS_S = 10.0  # in which a JVM that ends has run its hooks


def status_of_end(spark: SparkSession, settings: Settings) -> int | None:
    """The status with which a slot ends whose driver has; None while that lives."""
    if spark.sparkContext._gateway.proc.poll() is not None:
        return JVM_GONE
    if settings.spark_master and cluster.is_gone(spark):
        return CLUSTER_GONE
    return None


def is_ending(spark: SparkSession) -> bool:
    """Whether the driver's JVM ends or has ended. Its hooks stop its context first: queries that end with that, and
    starts that come to nothing, have not failed."""
    try:
        return cluster.is_gone(spark)
    except (Py4JError, OSError):
        return True


def status_after(spark: SparkSession) -> int | None:
    """The status with which a slot ends whose turn failed, where that is because its JVM ends; waited for until it has.
    None where the JVM lives on."""
    if not is_ending(spark):
        return None
    try:
        spark.sparkContext._gateway.proc.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        return None
    return JVM_GONE


def status_of_turn(turn: Callable[[], None], spark: SparkSession, settings: Settings) -> int | None:
    """The status with which a slot ends whose driver ended before a turn or in it; None where the turn was done."""
    try:
        status = status_of_end(spark, settings)
        if status is None:
            turn()
    except Exception:
        status = status_after(spark)
        if status is None:
            raise
    return status


@contextmanager
def refusal_told(tell: LineWriter) -> Iterator[None]:
    """A context in which a cluster that cannot run the slot ends the process, once the agent knows why."""
    try:
        yield
    except cluster.ClusterUnfit as unfit:
        logger().error("slot refused", why=str(unfit))
        tell({"state": "starting", "refused": str(unfit)})
        os._exit(REFUSED)
