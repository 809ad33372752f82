"""A Spark session for contract tests, whose JVM ends with it: settings as a slot has them, on four threads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.spark import shared_classes

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.master": "local[4]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.python.daemon.module": "workers.engine.spark.daemon",
    "spark.python.authenticate.socketTimeout": "90s",  # to connect within; 15 s are too few where all cores are busy
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.task.killTimeout": "100ms",
}


def open_session(config: ChannelConfig, *, more_classes: Path | None = None) -> SparkSession:
    """A session in a JVM of its own: the class path of a JVM that runs already cannot be extended.

    It maps a slot's archive of classes, where there is one. The folder with ``more_classes`` comes last on the class
    path, for the archive fits each class path that begins as a slot's does.
    """
    close_jvm()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {**SETTINGS, **spark_conf(config)}
    archive = shared_classes.options(config.data_dir, class_path=conf["spark.driver.extraClassPath"])
    conf["spark.driver.extraJavaOptions"] = f"{conf['spark.driver.extraJavaOptions']} {archive}".rstrip()
    builder = SparkSession.builder.appName("weir channels")
    for name, value in conf.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        if more_classes is not None:
            patch.setenv("SPARK_DIST_CLASSPATH", str(more_classes))
        return builder.getOrCreate()


def close_jvm() -> None:
    """Stop the session of this process, if there is one, and its JVM."""
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(20)
        SparkContext._gateway = SparkContext._jvm = None
