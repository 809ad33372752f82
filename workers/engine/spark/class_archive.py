"""Class data sharing: a driver maps the classes of Spark from an archive instead of parsing them from its jars.

    python -m workers.engine.spark.class_archive [--data-dir DIR]

A session of its own is opened and used for a moment, the JVM lists the classes that it loaded, and another JVM
(``java -Xshare:dump``) writes them to an archive. The JVM refuses an archive whose jars or options are not its own, and
then starts without it: a driver never depends on one. One serves all data folders of an environment.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from workers import broker_client
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.jvm.build import folder_to_write, folders
from workers.engine.channels.spark_channels import spark_conf
from workers.engine.worker_settings import Settings, from_environment
from workers.library.registry import task_types

from . import shared_classes
from .driver_warming import warm_up
from .rehearsal import Rehearsal, RehearsalContext
from .session import open_session

if TYPE_CHECKING:
    import pyarrow as pa

_ENDS_WITHIN_S = 60
_WRITTEN_WITHIN_S = 600
_BATCHES = (3, 2)  # all classes are loaded by then
_KEPT = 3  # archives, of 180 MB each: of `./weir up`, and of short and long runs of the tests


class ArchiveFailed(RuntimeError):
    """No archive could be written; drivers start without one."""


def make(settings: Settings) -> Path | None:
    """Write the archive of this installation's driver, unless it is there; its path, or None while another writes it.

    Raises
    ------
    ArchiveFailed
        The JVM wrote none; the message holds its last words.
    """
    conf = spark_conf(ChannelConfig.of(settings))
    class_path = conf["spark.driver.extraClassPath"]
    folder = folder_to_write(settings.data_dir)
    with (folder / "classes.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel gives it back for who is killed
        except BlockingIOError:
            return None
        if archive := shared_classes.find_archive(settings.data_dir, class_path=class_path):
            return archive
        scratch = folder / "making-classes"
        shutil.rmtree(scratch, ignore_errors=True)  # of one that was killed
        scratch.mkdir()
        try:
            archive = folder / shared_classes.archive_name(class_path=class_path)
            written = _written(settings, conf, scratch)
            written.chmod(0o644)  # drivers may be another user
            os.replace(written, archive)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        _forget_older(settings.data_dir, archive)
        return archive


def _forget_older(data_dir: Path, archive: Path) -> None:
    """Older ones go, but for the newest beside the environment, which another Java may use. Drivers keep what they map.
    """
    for folder in folders(data_dir):
        archives = sorted(folder.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
        for older in archives[:-_KEPT] if folder == archive.parent else archives:
            older.unlink(missing_ok=True)


def _written(settings: Settings, conf: dict[str, str], scratch: Path) -> Path:
    class_path = _record(settings, conf, scratch)
    written = scratch / "classes.jsa"
    command = [
        shared_classes.java(), *shared_classes.GC, "-Xshare:dump",
        f"-XX:SharedClassListFile={scratch / 'classes.lst'}", f"-XX:SharedArchiveFile={written}",
        "-Xlog:disable", "-Xlog:all=error:stderr", "-cp", class_path]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WRITTEN_WITHIN_S)
    if result.returncode != 0 or not written.is_file():
        raise ArchiveFailed(f"java -Xshare:dump ended with {result.returncode}: {result.stderr[-2000:]}")
    return written


def _record(settings: Settings, conf: dict[str, str], scratch: Path) -> str:
    """Open and use a session whose JVM lists what it loads into ``classes.lst``; its whole class path."""
    alone = replace(settings, spark_master="", threads=2, pin="never")
    listing = f"-Xshare:off -XX:DumpLoadedClassList={scratch / 'classes.lst'}"
    spark = open_session(
        alone, slot=0, slot_dir=scratch / "slot", channel_conf=conf, pin=False, class_options=listing)
    warm_up(spark, scratch)
    _in_python(spark, scratch / "state")
    _rehearse(spark, settings, scratch)
    class_path = str(spark._jvm.java.lang.System.getProperty("java.class.path"))
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with its input, and writes the list to its end
    gateway.proc.wait(_ENDS_WITHIN_S)
    return class_path


def _rehearse(spark: SparkSession, settings: Settings, scratch: Path) -> None:
    """Queries as a slot runs them; without a broker their classes are not in the archive, and nothing else is amiss."""
    try:
        with broker_client.connect(settings.redis_url) as broker:
            stage = RehearsalContext(spark, broker, ChannelConfig.of(settings), task_types())
            Rehearsal(stage, who=f"{settings.node}-archive", folder=scratch).run(_BATCHES)
    except Exception as error:
        print(f"The rehearsal failed: {error}", file=sys.stderr)


def _in_python(spark: SparkSession, checkpoint: Path) -> None:
    """A query with a Python worker and with state of Spark's own, so that their classes are in the archive, too."""
    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(batches)

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = rate.mapInArrow(through, rate.schema).dropDuplicates(["value"]).writeStream.format("noop").option(
        "checkpointLocation", str(checkpoint)).trigger(once=True).start()
    query.awaitTermination(_ENDS_WITHIN_S)
    query.stop()


def main(arguments: list[str] | None = None) -> int:
    """Write the archive from the command line; prints its path, or that another process writes it."""
    settings = from_environment()
    parser = argparse.ArgumentParser(description="Archive the classes that a Spark driver loads.")
    parser.add_argument("--data-dir", type=Path, default=settings.data_dir)
    options = parser.parse_args(arguments)
    try:
        archive = make(replace(settings, data_dir=options.data_dir.resolve()))
        print(archive or "Another process writes it.")
    except (ArchiveFailed, subprocess.TimeoutExpired, OSError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
