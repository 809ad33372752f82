"""Folds at the slot's fold host (``fold_host``), as the slot starts it and puts them into a query."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from scheduler.model.alternates import alternates_in
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.library.state import FoldedStream, Inherited
from workers.library.state_store import StoreLocation

from . import fold_files
from .fold_host import FoldDefinition

LIBRARY = "workers.library."
REST_S = 1.0  # between two hosts that end by themselves


def can_be_hosted(
    spark: SparkSession, tasks: Sequence[Task], task_types: Mapping[str, TaskType], checkpoint: Path
) -> bool:
    """True where the folds of a chain are worked on by the slot's fold host.

    All of them are, or none: those of the library, without code or effects of others, and with no part that goes by the
    clock of Spark's batches. A query whose checkpoint has states of Spark's keeps them there, until a handover gives it
    another checkpoint.
    """
    stateful = [task for task in tasks if task.type in task_types and task_types[task.type].stateful]
    return (
        spark.sparkContext.master.startswith("local") and not fold_files.are_of_spark(checkpoint)
        and not any(alternates_in(task.type, task.config) for task in tasks)
        and all(_is_hosted(task, task_types[task.type]) for task in stateful))


def _is_hosted(task: Task, task_type: TaskType) -> bool:
    return (
        task_type.movable_state and task_type.effects == () and task_type.build.startswith(LIBRARY)
        and not task_type.has_long_steps and not task.config.get("idle"))


@dataclass
class HostedFolds:
    """The folds of a query at the host: built one after the other, in the order of the stream."""

    checkpoint: Path
    is_open: bool = False
    count: int = field(default=0, init=False)

    def fold(
        self, folded: FoldedStream, inherited: Inherited | None, location: StoreLocation | None
    ) -> DataFrame:
        """The output of a stream and its function, with the state at the host (`workers.library.state.apply_fold`).
        """
        spark = folded.frame.sparkSession
        definition = FoldDefinition(
            folded.work, folded.parts, to_arrow_schema(folded.frame.schema), to_arrow_schema(folded.gives),
            {column.name: column.dataType.simpleString() for column in folded.gives}, inherited, location)
        folder = fold_files.folder_of(self.checkpoint.absolute(), self.count)
        self.count += 1
        behind = spark._jvm.weir.HostedFold.behind(
            folded.frame._jdf, folded.gives.json(), host_of(spark).socket, str(folder),
            bytearray(cloudpickle.dumps(definition)), self.is_open)
        return DataFrame(behind, spark)


# -- the process -------------------------------------------------------------------------------------------------------


class HostProcess:
    """A fold host as a child of this process: it ends with this process, and is restarted if it ends by itself."""

    def __init__(self, socket: str, driver: int) -> None:
        self.socket, self._driver = socket, driver
        self.process = self._start()
        threading.Thread(target=self._attend, name="weir-fold-host", daemon=True).start()

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "workers.engine.spark.fold_host", self.socket, str(self._driver)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # what a slot writes there is for its agent

    def _attend(self) -> None:
        while True:
            self.process.wait()
            time.sleep(REST_S)
            self.process = self._start()


@cache
def _host_in(folder: str, driver: int) -> HostProcess:
    return HostProcess(str(Path(folder, f"folds-{driver}")), driver)


def host_of(spark: SparkSession) -> HostProcess:
    """The host of a driver, started when its first fold asks for it. Its socket is where the driver's others are."""
    folder = spark.conf.get("spark.python.unix.domain.socket.dir", None) or tempfile.gettempdir()
    return _host_in(folder, spark._jvm.java.lang.ProcessHandle.current().pid())
