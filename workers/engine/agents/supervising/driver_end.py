"""The end of a slot's driver: of its JVM, or its cluster; and a slot's message that it cannot run at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from workers.engine.spark import cluster
from workers.engine.worker_settings import Settings

from ..agent_logs import logger
from .line_writer import LineWriter
from .supervision import CLUSTER_GONE, JVM_GONE, REFUSED

ENDS_S = 10.0  # in which a JVM that ends has run its hooks


def is_ending(spark: SparkSession) -> bool:
    """True where the driver's JVM ends or has ended. Its hooks stop its context first: queries that end with that, and
    starts that do not succeed, have not failed."""
    try:
        return cluster.is_gone(spark)
    except (Py4JError, OSError):
        return True


def end_in_turn(spark: SparkSession, settings: Settings, turn: Callable[[], object]) -> int | None:
    """Perform a turn of a slot; the status with which the slot ends where its driver has, before the turn or in it.

    A turn that fails while the JVM ends waits for that end.
    """
    try:
        status = _status_of_end(spark, settings)
        if status is None:
            turn()
        return status
    except Exception:
        if not is_ending(spark):
            raise
        with suppress(subprocess.TimeoutExpired):
            spark.sparkContext._gateway.proc.wait(ENDS_S)
            return JVM_GONE
        if settings.spark_master:
            return CLUSTER_GONE
        raise


@contextmanager
def refusal_told(tell: LineWriter) -> Iterator[None]:
    """A context in which a cluster that cannot run the slot ends the process, once the agent knows why."""
    try:
        yield
    except cluster.ClusterUnfit as unfit:
        logger().error("slot refused", why=str(unfit))
        tell({"state": "starting", "refused": str(unfit)})
        os._exit(REFUSED)


def _status_of_end(spark: SparkSession, settings: Settings) -> int | None:
    if spark.sparkContext._gateway.proc.poll() is not None:
        return JVM_GONE
    if settings.spark_master and cluster.is_gone(spark):
        return CLUSTER_GONE
    return None
