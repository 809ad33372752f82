"""`./weir spark-cluster`: a standalone Spark cluster on this machine, of the PySpark that Weir has, until a signal says
stop.

It is for people without a cluster, and for tests and benches: its master and workers are those of any standalone
cluster. The configuration that it writes is an example to copy: a secret, small logs, folders that are cleared.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from workers.processes import spawn, stop

from . import state_folder
from .process_logs import Logs
from .process_start import say, stopped_at_the_end
from .state_folder import CannotStart
from .supervise import Service, StopStage, Supervisor

READY_LIMIT_S = 120.0
STOP_S = 5.0

DEFAULTS = """\
# Of `./weir spark-cluster`; a cluster of another origin does well with the same.
# Without a secret whoever reaches the master or a driver runs code as the user that they run as.
spark.authenticate                              true
spark.authenticate.secret                       {secret}
spark.master.rest.enabled                       false
spark.ui.killEnabled                            false
# What an executor writes: one file of 1 MB and the two before it.
spark.executor.logs.rolling.strategy            size
spark.executor.logs.rolling.maxSize             1048576
spark.executor.logs.rolling.maxRetainedFiles    2
# Folders of applications that have ended go within the hour.
spark.worker.cleanup.enabled                    true
spark.worker.cleanup.interval                   600
spark.worker.cleanup.appDataTtl                 3600
spark.deploy.retainedApplications               20
spark.worker.ui.retainedExecutors               20
"""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: where its files are, where it listens, and what each of its workers offers.

    ``cores`` are tasks that a worker's executors may run at a time, not cores of the machine.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 7077
    web_port: int = 8077
    workers: int = 2
    cores: int = 8
    memory_mb: int = 4096

    @property
    def url(self) -> str:
        """The address by which slots name it."""
        return f"spark://{self.host}:{self.port}"

    @property
    def conf(self) -> Path:
        """The folder of its configuration, for ``SPARK_CONF_DIR`` of whoever uses it."""
        return self.folder / "conf"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        return {
            "SPARK_CONF_DIR": str(self.conf), "SPARK_LOCAL_IP": self.host, "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}

    def work(self, worker: int) -> Path:
        """A worker's folder: of each executor its log, and scratch files."""
        return self.folder / f"worker-{worker}"

    def services(self) -> tuple[Service, ...]:
        """The master, then its workers, numbered from 1."""
        master = Service("spark-master", (
            *_program("Master"), "--host", self.host, "--port", str(self.port), "--webui-port", str(self.web_port),
        ), is_ready=lambda: _listens(self.host, self.port))
        return (master, *(self._worker(number) for number in range(1, self.workers + 1)))

    def _worker(self, number: int) -> Service:
        port = free_port(self.host)
        argv = (
            *_program("Worker"), "--host", self.host, "--port", str(port), "--webui-port", "0", "--cores",
            str(self.cores), "--memory", f"{self.memory_mb}m", "--work-dir", str(self.work(number)), self.url)
        return Service(
            f"spark-worker-{number}", argv, is_ready=lambda: _listens(self.host, port),
            environment={"SPARK_LOCAL_DIRS": str(self.work(number) / "tmp")})

    def prepare(self) -> None:
        """Write the configuration unless it exists; delete what executors have left."""
        self.conf.mkdir(parents=True, mode=0o700, exist_ok=True)
        defaults = self.conf / "spark-defaults.conf"
        if not defaults.exists():
            defaults.touch(mode=0o600)
            defaults.write_text(DEFAULTS.format(secret=secrets.token_hex(32)))
        logging = self.conf / "log4j2.properties"
        if not logging.exists():
            logging.write_text(LOGGING)
        for number in range(1, self.workers + 1):
            shutil.rmtree(self.work(number), ignore_errors=True)
            (self.work(number) / "tmp").mkdir(parents=True)


@contextmanager
def running(cluster: Cluster) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A cluster for a test or a bench: its processes by name, which nobody starts again."""
    cluster.prepare()
    processes = {}
    try:
        for service in cluster.services():
            processes[service.name] = start(cluster, service)
        yield processes
    finally:
        for process in reversed(processes.values()):
            stop(process, timeout_s=STOP_S)


def start(cluster: Cluster, service: Service) -> subprocess.Popen[bytes]:
    """Start one process of a cluster, and wait until it serves."""
    env = {**os.environ, **cluster.environment, **service.environment}
    with (cluster.folder / f"{service.name}.log").open("ab") as log:
        process = spawn(service.argv, env=env, cwd=cluster.folder, stdout=log)
    deadline = time.monotonic() + READY_LIMIT_S
    while not service.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotStart(f"{service.name} does not start: {(cluster.folder / f'{service.name}.log').read_text()}")
        time.sleep(0.1)
    return process


def _program(daemon: str) -> tuple[str, ...]:
    home = Path(find_spec("pyspark").origin).parent
    return str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon.lower()}.{daemon}"


def free_port(host: str) -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def read_options(arguments: Sequence[str] | None, env: Mapping[str, str] = os.environ) -> Cluster:
    """The options from the command line, the environment and the defaults, in this order."""
    usual = Cluster(Path())
    parser = argparse.ArgumentParser(
        prog="weir spark-cluster", description="Run a standalone Spark cluster on this machine.",
        epilog="Slots use it with WEIR_SPARK_MASTER and SPARK_CONF_DIR: see \"On a Spark cluster\" in "
        "docs/operations.md.")
    parser.add_argument("--host", default=usual.host, help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=usual.port, help="port of the master (%(default)s)")
    parser.add_argument("--web-port", type=int, default=usual.web_port, help="port of its page (%(default)s)")
    parser.add_argument("--workers", type=int, default=usual.workers, help="how many workers (%(default)s)")
    parser.add_argument("--cores", type=int, default=usual.cores, help="tasks at a time on each (%(default)s)")
    parser.add_argument(
        "--memory-mb", type=int, default=usual.memory_mb, help="for heaps of executors on each (%(default)s)")
    parser.add_argument(
        "--data-dir", type=Path, default=state_folder.data_dir_of(env),
        help=f"{state_folder.DATA_DIR_HELP}; the cluster's files are in spark-cluster in it")
    options = parser.parse_args(arguments)
    for name in ("port", "workers", "cores", "memory_mb"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more")
    return Cluster(
        options.data_dir.expanduser().resolve() / "spark-cluster", host=options.host, port=options.port,
        web_port=options.web_port, workers=options.workers, cores=options.cores, memory_mb=options.memory_mb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped; the exit code."""
    cluster = read_options(arguments)
    try:
        cluster.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # Weir's own, whoever comes first
        with state_folder.lock(cluster.folder):
            return _serve(cluster)
    except CannotStart as error:
        say(str(error))
        return 1


def _serve(cluster: Cluster) -> int:
    if _listens(cluster.host, cluster.port):
        raise CannotStart(f"{cluster.host}:{cluster.port} is taken: choose another --port.")
    began_s = time.monotonic()
    cluster.prepare()
    master, *workers = cluster.services()
    supervisor = Supervisor(
        logs=Logs(cluster.folder / "logs"), environment={**os.environ, **cluster.environment}, folder=cluster.folder,
        stages=(StopStage(tuple(worker.name for worker in workers), STOP_S), StopStage((master.name,), STOP_S)),
        say=say)
    supervisor.take_signals()
    with stopped_at_the_end(supervisor):
        for services in ((master,), tuple(workers)):
            for service in services:
                supervisor.start(service)
            supervisor.wait_until_ready([service.name for service in services], limit_s=READY_LIMIT_S)
        if not supervisor.is_stopping:
            say(f"cluster ready after {time.monotonic() - began_s:.0f} s; with it:")
            say(f"  SPARK_CONF_DIR={cluster.conf} WEIR_SPARK_MASTER={cluster.url} ./weir up")
            say("Ctrl-C stops it")
        supervisor.keep_running()
    return 0


if __name__ == "__main__":
    sys.exit(main())
