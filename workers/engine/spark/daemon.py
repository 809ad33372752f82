"""The process that forks Spark's Python workers, made cheap: preloaded, frozen, and rarely collecting garbage.

Spark starts it by name (``spark.python.daemon.module``). The stock daemon collects garbage after every task, which is
most of a worker's time where a micro-batch holds a few events. And each of its workers begins by reading the directory
of Spark's archive again for every package in it, which takes a quarter of a second of CPU, thread by thread.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import warnings
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from zipimport import zipimporter

import pyspark.daemon

from .peers import is_from

# What operators import: forked workers share these pages, and their first task does not wait for them.
PRELOAD = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.stateful_processor_util",
)
TASKS_PER_COLLECTION = 500


class RareCollector:
    """Stands in for the module ``gc`` in the stock daemon: collects at every n-th request."""

    def __init__(self, every: int = TASKS_PER_COLLECTION) -> None:
        self._every = every
        self._requests = 0

    def collect(self) -> int:
        """Collect if it is time to."""
        self._requests += 1
        return gc.collect() if self._requests % self._every == 0 else 0


def only_from(process: int, work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """A worker function that works for one process alone: the stock daemon takes whoever reaches its Unix socket for
    Spark."""

    def work_for(connection: socket.socket, authenticated: bool) -> int:
        if is_from(connection, process):
            return work(connection, authenticated)
        connection.close()
        return 1

    return work_for


def forget_archives(finders: MutableMapping[str, object]) -> None:
    """Drop what looks into archives from a cache of finders by path.

    A worker invalidates all finders that it inherits, and those of archives read their directory anew at once. What
    is still to be imported from one gets a finder then, with the directory that is in memory.
    """
    for path, finder in list(finders.items()):
        if isinstance(finder, zipimporter):
            del finders[path]


def main() -> None:
    """Preload, freeze what was loaded out of the collector's sight, and serve as the stock daemon does."""
    driver = os.getppid()
    for name in PRELOAD:
        with suppress(ImportError):  # what is not installed is not preloaded; an operator that needs it says so
            importlib.import_module(name)
    with suppress(Exception):  # each worker would import what its task is made of
        importlib.import_module("workers.library.registry").built_in()
    # Spark's own use of pandas in stateful operators warns at every batch; nobody here could heed it.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.worker")
    forget_archives(sys.path_importer_cache)
    pyspark.daemon.gc = RareCollector()
    pyspark.daemon.worker = only_from(driver, pyspark.daemon.worker)
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
