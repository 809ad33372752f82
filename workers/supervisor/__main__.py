"""`./weir up`: everything on this machine, from the broker to the slots, until a signal says stop."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from . import broker as embedded
from . import services, state
from .logs import Logs
from .services import Options
from .state import ROOT, CannotStart
from .supervise import Supervisor

READY_LIMIT_S = 180.0
ANYWHERE = ("0.0.0.0", "::")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped; the exit code."""
    options = read_options(arguments)
    began_s = time.monotonic()
    try:
        _check_address(options)
        lock = state.lock(options.data_dir)
        with lock:
            return _up(options, began_s=began_s)
    except CannotStart as error:
        say(str(error))
        return 1


def _check_address(options: Options) -> None:
    address = f"{options.host}:{options.port}"
    try:
        embedded.check_free(options.host, options.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"{address} is taken by another server: choose another port with --port.") from None
        raise CannotStart(f"Cannot listen on {address} ({error.strerror}): choose --host and --port anew.") from None


def read_options(arguments: Sequence[str] | None) -> Options:
    """What the command line, the environment and the defaults say, in this order."""
    env = os.environ
    parser = argparse.ArgumentParser(prog="weir up", description="Start everything; Ctrl-C stops it.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (%(default)s)")
    slots = env.get("WEIR_SLOTS") or "2"  # as text: argparse then checks it as it does the flag
    parser.add_argument("--slots", type=int, default=slots, help="Spark drivers, one core each (%(default)s)")
    folder = state.data_dir_of(env)
    parser.add_argument("--data-dir", type=Path, default=folder, help="folder of all state (%(default)s)")
    given = parser.parse_args(arguments)
    if not 1 <= given.port <= 65535:
        parser.error("--port must be from 1 to 65535")
    if given.slots < 1:
        parser.error("--slots must be 1 or more")
    return Options(host=given.host, port=given.port, slots=given.slots, node=env.get("WEIR_NODE") or "n1",
                   data_dir=given.data_dir.expanduser().resolve())  # fmt: skip


def say(text: str) -> None:
    """A line for whoever watches; a terminal that is gone is no reason to fail."""
    with suppress(OSError, ValueError):
        print(f"weir: {text}", flush=True)


def environment(options: Options, *, url: str) -> dict[str, str]:
    """The variables that every child starts with."""
    variables = dict(os.environ)
    variables.update(
        REDIS_URL=url, WEIR_DATA_DIR=str(options.data_dir), WEIR_NODE=options.node, WEIR_SLOTS=str(options.slots),
        PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1", DJANGO_SETTINGS_MODULE="dashboard.config.settings",
    )  # fmt: skip
    if options.host not in ("127.0.0.1", "localhost") and not variables.get("WEIR_ALLOWED_HOSTS"):
        variables["WEIR_ALLOWED_HOSTS"] = ",".join(["localhost", "127.0.0.1", "[::1]", *_names_of(options.host)])
    return variables


def _names_of(host: str) -> list[str]:
    """The names that a browser may use for a server that listens on this address."""
    if host not in ANYWHERE:
        return [f"[{host}]" if ":" in host else host]
    addresses = [entry.address for entries in psutil.net_if_addrs().values() for entry in entries
                 if entry.family == socket.AF_INET]  # fmt: skip
    return sorted({socket.gethostname(), socket.getfqdn(), *addresses})


def _up(options: Options, *, began_s: float) -> int:
    say(f"state and logs in {options.data_dir}")
    given_url = os.environ.get("REDIS_URL", "").strip()
    if given_url and not embedded.answers(given_url):
        raise CannotStart(f"REDIS_URL names {given_url.rpartition('@')[2]}, where no broker answers.")
    own_broker = None if given_url else embedded.prepare(options.data_dir)
    url = own_broker.url if own_broker else given_url
    supervisor = Supervisor(
        logs=Logs(options.data_dir / "logs"), environment=environment(options, url=url), folder=options.data_dir,
        stages=services.STOP_STAGES, say=say,
    )  # fmt: skip
    supervisor.take_signals()
    try:
        if own_broker:
            supervisor.start(services.broker(own_broker.argv, url=url))
            supervisor.wait_until_ready(["broker"], limit_s=READY_LIMIT_S)
        _start_all(supervisor, options, url=url)
        if not supervisor.is_stopping:
            _welcome(options, seconds=time.monotonic() - began_s)
        supervisor.keep_running()
    finally:
        say("stopping")
        stopping_s = time.monotonic()
        supervisor.stop()
        say(f"stopped ({time.monotonic() - stopping_s:.1f} s)")
    return 0


def _start_all(supervisor: Supervisor, options: Options, *, url: str) -> None:
    _build_channels(supervisor)
    if supervisor.is_stopping:
        return
    # Spark takes longest to come up, and needs nothing of the database.
    supervisor.start(services.agent(options, url=url))
    for command in (("migrate", "--no-input"), ("sample_workspace",)):
        supervisor.run_once(command[0], (sys.executable, str(ROOT / "manage.py"), *command))
        if supervisor.is_stopping:
            return
    for service in (services.web(options), services.worker(url=url), services.beat(options)):
        supervisor.start(service)
    supervisor.wait_until_ready(["web", "worker", "beat", "agent"], limit_s=READY_LIMIT_S)


def _build_channels(supervisor: Supervisor) -> None:
    wanted = os.environ.get("WEIR_CHANNEL", "").strip() or "auto"
    if wanted == "python":
        return
    if wanted == "auto" and not shutil.which("javac"):
        say("no javac found: channels run on Python, slower; install openjdk-17-jdk-headless for the fast ones")
        return
    try:
        supervisor.run_once("channels", (sys.executable, "-P", "-m", "workers.channels.jvm.build"))
    except CannotStart as error:
        if wanted == "jvm":
            raise
        say(f"{error}\nchannels run on Python, slower")


def _welcome(options: Options, *, seconds: float) -> None:
    host = "127.0.0.1" if options.host in ANYWHERE else options.host
    say(f"ready after {seconds:.0f} s: http://{f'[{host}]' if ':' in host else host}:{options.port}/")
    with suppress(OSError, ValueError):
        for login in json.loads((options.data_dir / "logins.json").read_text()):
            say(f"  log in as {login['username']:<12} password {login['password']:<16} ({login['role']})")
    say("Ctrl-C stops everything")


if __name__ == "__main__":
    sys.exit(main())
