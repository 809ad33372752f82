"""Apache Flink on this machine: installed in a folder of its own, one JobManager, one TaskManager, jobs in Java."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.launcher.broker import free_port
from workers.processes import spawn, stop

HERE = Path(__file__).parent
PACKAGE = "apache-flink-libraries==2.3.0"
READY_S = 120.0
CHECKPOINTS_S = 5
# What Flink's own scripts open to it on a JDK from 17 on.
OPENED = tuple(
    option for names, kind in (
        ("java.net java.util java.lang java.lang.reflect java.text java.time java.util.concurrent "
         "java.util.concurrent.atomic java.util.concurrent.locks java.io java.nio", "java.base"),)
    for name in names.split() for option in ("--add-opens", f"{kind}/{name}=ALL-UNNAMED"))


class FlinkFailed(RuntimeError):
    """Flink cannot be installed or does not start; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Flink:
    """A cluster that runs."""

    jars: str  # a class path
    port: int
    folder: Path
    job_manager: int  # process ids
    task_manager: int

    def submit(self, jobs: int, rate_per_s: float) -> Path:
        """Compile the jobs, start them, and wait until all run.

        Returns
        -------
        Path
            The folder in which each job notes the age of what comes out: a line ``<at, ms> <age, ms>``.
        """
        ages = self.folder / "ages"
        ages.mkdir()
        self.run(self.compiled("SmallDataflows"), str(ages), str(jobs), str(rate_per_s))
        _until(lambda: self._running() == jobs, f"{jobs} jobs")
        return ages

    def compiled(self, program: str) -> Path:
        """The jar of a Java program that stands beside this module, with one class at least of its name."""
        classes, jar = self.folder / program, self.folder / f"{program}.jar"
        classes.mkdir()
        _run(["javac", "-cp", self.jars, "-d", str(classes), str(HERE / f"{program}.java")])
        _run(["jar", "--create", "--file", str(jar), "-C", str(classes), "."])
        return jar

    def run(self, jar: Path, *arguments: str) -> None:
        """Run a compiled program, which submits to this cluster: with its port, the jar and these arguments."""
        _run(["java", *OPENED, "-cp", f"{self.jars}:{jar}", jar.stem, str(self.port), str(jar), *arguments])

    def _running(self) -> int:
        return self._answer("/overview").get("jobs-running", 0)

    def has_slots(self) -> bool:
        """Whether the TaskManager has reported in."""
        return self._answer("/overview").get("slots-available", 0) > 0

    def _answer(self, path: str) -> dict:
        try:
            with urllib.request.urlopen(f"http://localhost:{self.port}{path}", timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}


def installed() -> str:
    """The class path of Flink's jars, which are installed beside the environment the first time (330 MB).

    Raises
    ------
    FlinkFailed
        They cannot be installed.
    """
    folder = Path(sys.prefix) / "flink"
    if not list(folder.glob("pyflink/lib/flink-dist-*.jar")):
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), PACKAGE])
    return ":".join(map(str, sorted(folder.glob("pyflink/lib/*.jar"))))


@contextmanager
def flink(folder: Path, *, slots: int) -> Iterator[Flink]:
    """A cluster that is ready, with its checkpoints in a folder.

    Parameters
    ----------
    slots : int
        Of the TaskManager: a job of one thread takes one.
    """
    jars, port, rpc = installed(), free_port(), free_port()
    configured = folder / "conf"
    configured.mkdir(parents=True)
    (configured / "config.yaml").write_text(_settings(folder, port=port, rpc=rpc, slots=slots))
    (configured / "log4j.properties").write_text(
        "rootLogger.level = WARN\nrootLogger.appenderRef.console.ref = Console\nappender.console.name = Console\n"
        "appender.console.type = CONSOLE\nappender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d %-5p %c - %m%n\n")
    started = []
    entry = "org.apache.flink.runtime"
    try:
        for heap, program in (
                ("512m", f"{entry}.entrypoint.StandaloneSessionClusterEntrypoint"),
                ("768m", f"{entry}.taskexecutor.TaskManagerRunner")):
            with (folder / f"{program.rsplit('.', 1)[1]}.log").open("wb") as log:
                started.append(spawn(
                    ["java", f"-Xmx{heap}", "-XX:+UseG1GC", *OPENED,
                     f"-Dlog4j.configurationFile=file:{configured / 'log4j.properties'}",
                     "-cp", jars, program, "--configDir", str(configured)], stdout=log, stderr=subprocess.STDOUT))
        cluster = Flink(jars, port, folder, started[0].pid, started[1].pid)
        _until(cluster.has_slots, f"a TaskManager; its log is in {folder}")
        yield cluster
    finally:
        for process in reversed(started):
            stop(process, timeout_s=20)


def _settings(folder: Path, *, port: int, rpc: int, slots: int) -> str:
    values = {
        "jobmanager.rpc.address": "localhost", "jobmanager.rpc.port": rpc, "jobmanager.bind-host": "localhost",
        "rest.address": "localhost", "rest.port": port, "rest.bind-address": "localhost",
        "taskmanager.host": "localhost", "taskmanager.bind-host": "localhost",
        "taskmanager.numberOfTaskSlots": slots, "taskmanager.cpu.cores": slots,
        "taskmanager.memory.task.heap.size": "512m", "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.framework.heap.size": "128m", "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.jvm-metaspace.size": "256m", "taskmanager.memory.jvm-overhead.min": "192m",
        "taskmanager.memory.jvm-overhead.max": "192m",
        "taskmanager.memory.network.min": "128m", "taskmanager.memory.network.max": "128m",
        "taskmanager.memory.managed.size": "64m", "state.backend.type": "hashmap",
        "execution.checkpointing.interval": f"{CHECKPOINTS_S} s", "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(), "io.tmp.dirs": str(folder / "tmp")}
    return "".join(f"{name}: {value}\n" for name, value in values.items())


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FlinkFailed(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")


def _until(is_so, what: str) -> None:
    deadline = time.monotonic() + READY_S
    while not is_so():
        if time.monotonic() > deadline:
            raise FlinkFailed(f"waited {READY_S:.0f} s for {what}")
        time.sleep(0.2)
