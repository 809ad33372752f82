"""A slot's Spark session: one driver and its settings."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from pyspark.sql import SparkSession

from workers.engine.worker_settings import ROOT, Settings

from . import cluster, driver_page, shared_classes
from .hidden_pandas import pandas_hidden
from .pinning import pin_to_core
from .scratch import socket_dir

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def open_session(
    settings: Settings, *, slot: int, slot_dir: Path, channel_conf: Mapping[str, str] | None = None, pin: bool = True,
    class_options: str | None = None,
) -> SparkSession:
    """Start the driver of one slot. Scratch files go to ``slot_dir``; what an earlier driver left there is removed.

    Parameters
    ----------
    pin : bool, optional
        True where it is held to the slot's core, where slots are.
    class_options : str, optional
        How its JVM loads classes; from the archive, where there is one, if not given.

    Raises
    ------
    ClusterUnfit
        The slot is to run on a cluster that is away, has no room, or lacks what a slot needs.
    """
    if settings.spark_master:
        cluster.require_master(settings.spark_master)
    if pin:
        pin_to_core(settings, slot)
    _spare_pandas()
    scratch = slot_dir / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "tmp").mkdir(parents=True)
    sockets = socket_dir(slot_dir)
    _import_path()
    builder = SparkSession.builder.appName(f"weir {settings.node}/{slot}")
    conf = {**configuration(settings, scratch=scratch, sockets=sockets), **(channel_conf or {})}
    if class_options is None:
        class_options = shared_classes.options(
            settings.data_dir, class_path=conf.get("spark.driver.extraClassPath", ""))
    conf["spark.driver.extraJavaOptions"] = f"{conf['spark.driver.extraJavaOptions']} {class_options}".rstrip()
    for name, value in conf.items():
        builder = builder.config(name, value)
    if settings.spark_master:
        return _on_cluster(builder, settings, scratch)
    key = driver_page.launch(conf) if settings.spark_pages else ""
    spark = builder.getOrCreate()
    if key:
        driver_page.opened(spark, key)
    return spark


def _spare_pandas() -> None:
    """Let PySpark do without pandas: at the first object for Java, it asks its module for tests whether NumPy is there,
    and that module tries pandas as well. A query that needs pandas imports it."""
    with pandas_hidden():
        import_module("pyspark.testing.utils")


def _on_cluster(builder: SparkSession.Builder, settings: Settings, scratch: Path) -> SparkSession:
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise cluster.not_taken_in(settings.spark_master, error) from error
    spark.sparkContext.environment.update(cluster.environment_of_tasks(settings))
    try:
        cluster.require_secret(spark)
        cluster.require_fit_executor(spark, settings, folder=scratch)
    except cluster.ClusterUnfit:
        spark.stop()  # its cores are for others
        raise
    return spark


def configuration(settings: Settings, *, scratch: Path, sockets: Path) -> dict[str, str]:
    """The settings of a slot's driver, each with its reason."""
    # The serial collector keeps a driver small. Both compilers: every batch plans its query anew, which C1 alone makes
    # half as dear again (210 against 138 ms of CPU a batch for five tasks, two of them with state in Python).
    # The second one waits ten times as long as it would, until a method is hot enough to pay for it: of small dataflows
    # most never are, and where many events pass they are within seconds.
    # Compilers stay as threads of their own for good: what they took is told apart (workers/engine/measuring/load.py).
    # A heap begins small and stays near what lives on it: else it begins with a 64th of the machine's memory and never
    # gives any back. What is newly made has 64 MB, as collections would come too often with less.
    java_options = f"-XX:+UseSerialGC -XX:-UseDynamicNumberOfCompilerThreads -Xss1m -Djava.io.tmpdir={scratch}/tmp"
    java_options += " -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    java_options += " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    java_options += " -Xms160m -XX:NewSize=64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:-ShrinkHeapInSteps"
    java_options += " -XX:TrimNativeHeapInterval=30000"  # what compilers and buffers have freed, likewise
    java_options += f" -Duser.home={scratch}/tmp"  # the home of whoever it runs as is not its own
    java_options += f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    return {
        "spark.master": settings.spark_master or f"local[{settings.threads}]",
        # So many threads wait for answers, they do not share out work: nothing is split by itself.
        "spark.default.parallelism": "4",
        # Else it has as many threads for its own messages as for tasks.
        "spark.rpc.netty.dispatcher.numThreads": "4",
        "spark.driver.memory": f"{settings.slot_memory_mb}m",
        "spark.driver.extraJavaOptions": java_options,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.log.level": "ERROR",
        # Where nobody looks at a slot's own pages, they would cost memory for nothing.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "5",
        # Else Spark puts settings, system properties and the environment in the place of ${…} wherever it reads SQL.
        "spark.sql.variable.substitute": "false",
        # What a query says of a time must not depend on the machine that it runs on.
        "spark.sql.session.timeZone": "UTC",
        # One partition a stream keeps the order of events, so a shuffle has one partition too and nothing to adapt.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # A micro-batch is planned anew each time: its generated classes must be found, with many queries in a driver.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Python workers: see daemon.py; a Unix socket spares each Python stage a stall of 40 ms.
        "spark.python.daemon.module": "workers.engine.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(sockets),
        # What a stopped query's Python tasks may still do after it is gone, they do in this time.
        "spark.python.task.killTimeout": "100ms",
        # A thread of a bundle keeps its Python worker from batch to batch.
        "spark.python.factory.idleWorkerMaxPoolSize": str(max(16, 2 * settings.threads)),
        **_streaming(),
        **(cluster.configuration(settings) if settings.spark_master else _alone()),
        **(driver_page.SETTINGS if settings.spark_pages and not settings.spark_master else {}),
    }


def _streaming() -> dict[str, str]:
    return {
        # Renaming is atomic on a local file system: neither the abstraction above it nor checksums add anything.
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # No event, no batch: nothing in the library waits for a watermark on an idle stream.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # All queries of a slot share one budget outside the heap.
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
        # A chain may hold several stateful tasks. In append mode, without timeouts or watermarks, each passes its rows
        # on within the batch, so they compose; Spark's check refuses a second applyInPandasWithState regardless.
        "spark.sql.streaming.unsupportedOperationCheck": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.noDataProgressEventInterval": "60s",
        "spark.sql.streaming.stopTimeout": "5s",
    }


def _alone() -> dict[str, str]:
    """A driver that is its own executor talks to nobody: it listens to this machine only, and to who has its secret."""
    return {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        # Its ports for messages and blocks would take code from every user of the machine. With a local master Spark
        # makes a secret by itself, which never leaves the process.
        "spark.authenticate": "true",
    }


def _import_path() -> None:
    """Let Python workers find the daemon and the task types wherever the slot was started."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
