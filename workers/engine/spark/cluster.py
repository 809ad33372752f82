"""Slots on a standalone Spark cluster: what a slot asks of it, and what must hold there before the slot serves.

Each slot is an application of its own: a driver on the node, and one executor, which has the slot's cores and a heap of
the slot's size. Stateful tasks keep their stores in that executor, and batches of one query never meet in two.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from workers.engine.worker_settings import ROOT, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What tasks read of their surroundings where they run (workers/library); nothing that is sealed is among it.
ENVIRONMENT = (
    "REDIS_URL", "WEIR_CONNECTOR_HOSTS", "WEIR_DATABASE_HOSTS", "WEIR_DATA_DIR", "WEIR_HTTP_HOSTS", "WEIR_INBOX_DIRS",
    "WEIR_PRIVATE_ADDRESSES", "WEIR_PYTHON_PACKAGES", "WEIR_REPLAY_DIRS", "WEIR_SINK_HOSTS", "WEIR_SPARK_SOURCES",
    "PYTHONPATH")
ANSWERS_WITHIN_S = 5.0
EXECUTOR_WITHIN_S = 120.0
_SECRET = (
    "spark.authenticate.secret must be the same for the cluster's master and workers and for Weir, in the "
    "spark-defaults.conf of the folder that SPARK_CONF_DIR names")
_MASTER = re.compile(r"spark://[\w.\[\]:-]+:\d+(,[\w.\[\]:-]+:\d+)*")


class ClusterUnfit(RuntimeError):
    """The cluster cannot run a slot; the message says why, and what to do."""


def configuration(settings: Settings) -> dict[str, str]:
    """The settings of a slot's session that a local one does not have, each with its reason."""
    cores = str(settings.slot_cores)
    conf = {
        # One executor a slot, and no more than its cores, so that the first slot does not take all there are.
        "spark.cores.max": cores,
        "spark.executor.cores": cores,
        "spark.executor.memory": f"{settings.slot_memory_mb}m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -Xss1m",
        "spark.dynamicAllocation.enabled": "false",
        # A batch that fails is repeated by the slot, with new fencing tokens, and never beside itself: as locally.
        "spark.task.maxFailures": "1",
        "spark.speculation": "false",
        # With one executor there is no better place to wait for.
        "spark.locality.wait": "0s",
        # Each batch broadcasts each stage anew, a few KB: compressing them takes longer than sending them.
        "spark.broadcast.compress": "false",
        "spark.executor.syncLogLevel.enabled": "true",
        # The socket's folder must be there on every machine.
        "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
    }
    if all(_is_loopback(host) for host, _ in masters(settings.spark_master)):
        # All of the cluster is on this machine: nobody else is to reach the driver.
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf


def environment_of_tasks(settings: Settings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of this process that Python workers of executors get in their environment.

    It goes along with each Python function, and not in Spark's settings: these stand in a driver's command line, which
    other users of the machine see, and the broker's address has its password.
    """
    variables = {**environment, "REDIS_URL": settings.redis_url, "WEIR_DATA_DIR": str(settings.data_dir)}
    return {name: variables[name] for name in ENVIRONMENT if variables.get(name)}


def masters(url: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone cluster's masters.

    Raises
    ------
    ClusterUnfit
        The URL is of another kind.
    """
    if not _MASTER.fullmatch(url):
        raise ClusterUnfit(
            f"WEIR_SPARK_MASTER is {url!r}. Slots run on this machine, when it is not set, or on a standalone Spark "
            "cluster: spark://HOST:PORT, several masters by commas. Set one of the two.")
    pairs = (address.rpartition(":") for address in url.removeprefix("spark://").split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def require_master(url: str) -> None:
    """Make sure that a master answers, before a JVM asks it for a minute.

    Raises
    ------
    ClusterUnfit
        None does, or the URL is of another kind.
    """
    reasons = []
    for host, port in masters(url):
        try:
            socket.create_connection((host, port), timeout=ANSWERS_WITHIN_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
    raise ClusterUnfit(
        f"No Spark master answers at {', '.join(reasons)}. Start the cluster, or correct WEIR_SPARK_MASTER.")


def not_taken_in(url: str, error: Exception) -> ClusterUnfit:
    """The error for a cluster that answers, and takes no application in."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return ClusterUnfit(
        f"{url} does not take the slot in ({first[:300]}). {_SECRET}, and its Spark be the version that Weir has.")


def require_secret(spark: SparkSession) -> None:
    """Make sure that the slot's driver answers nobody without the cluster's secret.

    Raises
    ------
    ClusterUnfit
        It would run the code of whoever reaches its ports.
    """
    if spark.conf.get("spark.authenticate", "false") != "true":
        raise ClusterUnfit(
            f"{spark.sparkContext.master} has no secret: whoever reaches a slot's driver could run code there. "
            f"{_SECRET}, with spark.authenticate true.")


def require_fit_executor(spark: SparkSession, settings: Settings, *, folder: Path) -> None:
    """Wait for the slot's executor, and make sure that it can do a slot's work.

    Parameters
    ----------
    folder : Path
        A folder of the slot's own in the data folder.

    Raises
    ------
    ClusterUnfit
        None comes; or it lacks the data folder, this version of Weir, or the broker.
    """
    _await_executor(spark, settings)
    driver = HostView.here(folder / f"probe-{uuid.uuid4().hex}")
    driver.probe.write_text(driver.probe.name)
    jar = spark.conf.get("spark.executor.extraClassPath", "")
    try:
        reasons = unfitness(driver, _look_there(spark, driver, jar=jar, redis_url=settings.redis_url))
    finally:
        for path in (driver.probe, answer_path(driver.probe)):
            path.unlink(missing_ok=True)
    if reasons:
        raise ClusterUnfit(f"The executors of {settings.spark_master} cannot run a slot. {' '.join(reasons)}")


def is_gone(spark: SparkSession) -> bool:
    """True where the cluster has ended the slot's application: no master was left, or its executors kept failing."""
    return bool(spark.sparkContext._jsc.sc().isStopped())


@dataclass(frozen=True, slots=True)
class HostView:
    """The view of a Python process on a host of what drivers and executors must share.

    ``probe`` is a file that the driver wrote; ``lacks_broker`` is why the broker was not reached, if it was not.
    """

    host: str
    python: str
    code: str
    probe: Path
    sees_folder: bool = True
    sees_jar: bool = True
    lacks_broker: str = ""

    @classmethod
    def here(cls, probe: Path) -> HostView:
        """The driver's view."""
        return cls(socket.gethostname(), platform.python_version(), code_digest(), probe)

    @classmethod
    def looked_at(cls, probe: Path, *, jar: str, redis_url: str) -> HostView:
        """The view of an executor's Python worker: it reads the probe and answers it, and asks the broker."""
        sees_folder = False
        with suppress(OSError):
            sees_folder = probe.read_text() == probe.name
            answer_path(probe).write_text(probe.name)
        lacks_broker = ""
        try:
            from workers import broker_client

            with broker_client.connect(redis_url, socket_timeout=ANSWERS_WITHIN_S) as client:
                client.ping()
        except Exception as error:  # a library that is missing is a reason, too
            lacks_broker = f"{type(error).__name__}: {error}"
        return cls(
            socket.gethostname(), platform.python_version(), code_digest(), probe, sees_folder,
            not jar or Path(jar).is_file(), lacks_broker)


def answer_path(probe: Path) -> Path:
    """The path of the answer of a process that reads a probe."""
    return probe.with_name(f"{probe.name}-answer")


def unfitness(driver: HostView, executor: HostView) -> list[str]:
    """Reasons why an executor cannot do a driver's work, each with what to do; none where it can."""
    host, folder, reasons = executor.host, driver.probe.parent, []
    if not executor.sees_folder:
        reasons.append(
            f"{host} does not see {folder}: checkpoints, state and files are in the data folder, which must be at the "
            "same path on every machine of the cluster. Put WEIR_DATA_DIR on a shared file system.")
    elif not answer_path(driver.probe).is_file():
        reasons.append(f"{host} cannot write to {folder}. Let its executors run as the user that Weir runs as.")
    elif not executor.sees_jar:
        reasons.append(
            f"{host} does not see the jar of the channels. Put it in the data folder, or WEIR_CHANNELS_JAR on a shared "
            "file system.")
    if executor.code != driver.code:
        reasons.append(f"{host} has another version of Weir in {ROOT}. Install the same one there.")
    if executor.python != driver.python:
        reasons.append(f"{host} has Python {executor.python}, not {driver.python}. Install the same one there.")
    if executor.lacks_broker:
        reasons.append(
            f"{host} does not reach the broker ({executor.lacks_broker}). Start Weir with --broker-host, or name a "
            "broker in REDIS_URL that the cluster's machines reach.")
    return reasons


@cache
def code_digest() -> str:
    """A digest of the code that drivers and executors share: names and sizes of its files."""
    digest = hashlib.sha256()
    for package in ("scheduler", "workers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()


def _await_executor(spark: SparkSession, settings: Settings) -> None:
    context = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + EXECUTOR_WITHIN_S
    while context.isStopped() or context.getExecutorIds().size() == 0:
        if context.isStopped() or time.monotonic() > deadline:
            raise ClusterUnfit(
                f"No executor of {settings.slot_cores} cores and {settings.slot_memory_mb} MB came from "
                f"{settings.spark_master} within {EXECUTOR_WITHIN_S:.0f} s: no worker has so much left, or executors "
                "end as they start (their logs are in the workers' folders). Start more workers or larger ones, or "
                "choose a smaller WEIR_SLOT_CORES or WEIR_SLOT_MEMORY_MB.")
        time.sleep(0.1)


def _look_there(spark: SparkSession, driver: HostView, *, jar: str, redis_url: str) -> HostView:
    probe = driver.probe

    def look(_: Iterable[int]) -> Iterator[HostView]:
        yield HostView.looked_at(probe, jar=jar, redis_url=redis_url)

    try:
        return spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect()[0]
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = next((line for line in reversed(lines) if re.match(r"\w*(Error|Exception)\b", line)), lines[0])
        raise ClusterUnfit(
            f"An executor of {spark.sparkContext.master} could not run Weir's Python: {cause[:300]}. Weir, and "
            f"the Python that it runs with, must be at the same paths there ({ROOT}).") from error


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
