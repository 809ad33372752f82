"""The services of the system: the processes of one machine, how each is started and when it serves."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis

from workers import broker_client

from .broker import answers
from .state_folder import CannotStart
from .supervise import FAILURES_BEFORE_READY, Service, StopStage

# The agent first: its slots drain their queries while the broker still takes what they write. With it whatever begins
# something new, so that this has time to end on a busy machine. The broker last.
# Together under the ten seconds that a stop may take.
STOP_STAGES = (
    StopStage(("worker", "agent"), limit_s=6.8),
    StopStage(("web",), limit_s=1.9),
    StopStage(("broker",), limit_s=0.6),
)
LARGEST_FRAME = 16 * 1024  # of a WebSocket: a message has 4,096 characters at most, each of 4 bytes
_PYTHON = (sys.executable, "-P")


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `./weir up`."""

    host: str
    port: int
    slots: int
    node: str
    data_dir: Path
    broker_host: str = ""  # where agents of other machines reach the embedded broker


def broker(argv: tuple[str, ...], *, url: str) -> Service:
    """The embedded broker."""
    return Service("broker", argv, is_ready=lambda: answers(url))


def web(options: UpOptions, *, behind_proxy: bool = False) -> Service:
    """The site: HTTP and WebSockets.

    Headers that say who asked (X-Forwarded-For) count only behind a proxy: else anybody on this machine could write
    them, and guess passwords from as many addresses as there are.
    """
    argv = (
        *_PYTHON, "-m", "uvicorn", "dashboard.config.asgi:application",
        "--host", options.host, "--port", str(options.port), "--no-access-log", "--timeout-graceful-shutdown", "1",
        "--http", "dashboard.config.http_server:SiteProtocol",
        "--ws", "dashboard.live.websocket_server:LiveProtocol", "--ws-max-size", str(LARGEST_FRAME),
        # Deltas are small: compressing them for each connection by itself would cost more than sending them.
        "--ws-per-message-deflate", "false",
        "--proxy-headers" if behind_proxy else "--no-proxy-headers",
    )  # fmt: skip
    return Service("web", argv, is_ready=lambda: _serves_http(_reachable(options.host), options.port))


# Django's checks of the project are the tests': in workers they would import every page.
WITHOUT_CHECKS = {"CELERY_SKIP_CHECKS": "1"}


def worker(*, url: str) -> Service:
    """The Celery worker: threads, because its jobs mostly wait, and each process of a pool costs another 100 MB."""
    argv = (
        *_PYTHON, "-m", "celery", "-A", "dashboard.tasks.app", "worker", "--pool", "threads", "--concurrency", "4",
        "--hostname", "weir@%h", "--without-gossip", "--without-mingle", "--without-heartbeat",
    )  # fmt: skip
    return Service(
        "worker", argv, is_ready=lambda: _waits_for_jobs(url), environment=WITHOUT_CHECKS)


def agent(*, node: str, slots: int, data_dir: Path, url: str) -> Service:
    """This machine's node agent, which starts the slots itself."""
    argv = (
        *_PYTHON, "-m", "workers.engine.agents.node_agent", "--node", node, "--slots", str(slots),
        "--data-dir", str(data_dir),
    )  # fmt: skip
    return Service("agent", argv, is_ready=_slots_run(node, slots, url=url))


def _serves_http(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _waits_for_jobs(url: str) -> bool:
    """A worker that has nothing to do waits in BRPOP; asking the broker is cheaper than asking the worker."""
    with broker_client.connect(url, socket_timeout=2) as client:
        try:
            return any(entry.get("cmd") == "brpop" for entry in client.client_list())
        except redis.RedisError:
            return False


def _slots_run(node: str, slots: int, *, url: str) -> Callable[[], bool]:
    began_ms = int(time.time() * 1000)

    def is_ready() -> bool:
        with broker_client.connect(url, socket_timeout=2) as client:
            try:
                report = json.loads(client.get(f"weir:observed:{node}") or "{}")
            except redis.RedisError:
                return False
        # An agent that was killed leaves its report for some seconds: only one made since counts.
        if report.get("at_ms", 0) <= began_ms:
            return False
        for name, slot in report.get("slots", {}).items():
            if slot.get("state") != "running" and slot.get("restarts", 0) >= FAILURES_BEFORE_READY:
                raise CannotStart(f"Slot {name} does not start. {slot.get('error')}")
        return [slot.get("state") for slot in report.get("slots", {}).values()].count("running") >= slots

    return is_ready


def _reachable(host: str) -> str:
    """An address to ask a server that listens on this one."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
