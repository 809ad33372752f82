"""`./weir up`: everything on this machine, from the broker to the slots, until a signal says stop."""

from __future__ import annotations

import argparse
import errno
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from . import broker as embedded
from . import machine, state_folder, up_services
from .process_logs import Logs
from .process_start import READY_LIMIT_S, channels, engine_environment, say, shown, stopped_at_the_end
from .state_folder import ROOT, CannotStart
from .supervise import Errand, Supervisor
from .up_services import UpOptions

ANYWHERE = ("0.0.0.0", "::")

def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped; the exit code."""
    options = read_options(arguments)
    began_s = time.monotonic()
    try:
        _check_address(options)
        with state_folder.full_disk_named(options.data_dir), state_folder.lock(options.data_dir):
            return _up(options, began_s=began_s)
    except CannotStart as error:
        say(str(error))
        return 1


def _is_behind_proxy(variables: Mapping[str, str]) -> bool:
    """HTTPS ends at a proxy, which is then the one that says who asks."""
    return variables.get("WEIR_HTTPS", "").strip().lower() in {"1", "true", "yes", "on"}


def _check_address(options: UpOptions) -> None:
    address = f"{options.host}:{options.port}"
    try:
        embedded.check_free(options.host, options.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"{address} is taken by another server: choose another port with --port.") from None
        raise CannotStart(f"Cannot listen on {address} ({error.strerror}): choose --host and --port anew.") from None


def read_options(arguments: Sequence[str] | None) -> UpOptions:
    """The options from the command line, the environment and the defaults, in this order."""
    env = os.environ
    parser = argparse.ArgumentParser(prog="weir up", description="Start everything; Ctrl-C stops it.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (%(default)s)")
    slots = env.get("WEIR_SLOTS") or "2"  # as text: argparse then checks it as it does the flag
    parser.add_argument("--slots", type=int, default=slots, help="Spark drivers, one core each (%(default)s)")
    folder = state_folder.data_dir_of(env)
    parser.add_argument("--data-dir", type=Path, default=folder, help=state_folder.DATA_DIR_HELP)
    parser.add_argument(
        "--broker-host", default="", help="an address of this machine at which agents of others reach the broker")
    options = parser.parse_args(arguments)
    if not 1 <= options.port <= 65535:
        parser.error("--port must be from 1 to 65535")
    if options.slots < 1:
        parser.error("--slots must be 1 or more")
    return UpOptions(host=options.host, port=options.port, slots=options.slots, node=env.get("WEIR_NODE") or "n1",
                   data_dir=options.data_dir.expanduser().resolve(), broker_host=options.broker_host)  # fmt: skip


def environment(options: UpOptions, *, url: str) -> dict[str, str]:
    """The variables that every child starts with."""
    variables = engine_environment(url=url, data_dir=options.data_dir, node=options.node, slots=options.slots)
    variables["DJANGO_SETTINGS_MODULE"] = "dashboard.config.settings"
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


def _up(options: UpOptions, *, began_s: float) -> int:
    say(f"state and logs in {options.data_dir}")
    given_url = os.environ.get("REDIS_URL", "").strip()
    if given_url and not embedded.answers(given_url):
        raise CannotStart(f"REDIS_URL names {shown(given_url)}, where no broker answers.")
    if given_url and options.broker_host:
        raise CannotStart("--broker-host is for the embedded broker; REDIS_URL names one that listens where it does.")
    own_broker = None if given_url else _own_broker(options)
    url = own_broker.url if own_broker else given_url
    supervisor = Supervisor(
        logs=Logs(options.data_dir / "logs"), environment=environment(options, url=url), folder=options.data_dir,
        stages=up_services.STOP_STAGES, say=say,
    )  # fmt: skip
    supervisor.take_signals()
    with stopped_at_the_end(supervisor):
        if own_broker:
            supervisor.start(up_services.broker(own_broker.argv, url=url))
            supervisor.wait_until_ready(["broker"], limit_s=READY_LIMIT_S)
        _start_all(supervisor, options, url=url)
        if not supervisor.is_stopping:
            _welcome(options, seconds=time.monotonic() - began_s)
        supervisor.keep_running(turn=machine.follow(supervisor, options.data_dir))
    return 0


def _own_broker(options: UpOptions) -> embedded.EmbeddedBroker:
    """The embedded broker, ready to be started; if other machines are to reach it, at an address of this machine."""
    prepared = embedded.prepare(options.data_dir, also_at=options.broker_host)
    if options.broker_host:
        try:
            embedded.check_free(options.broker_host, prepared.port)
        except OSError as error:
            raise CannotStart(
                f"The broker cannot listen on {options.broker_host}:{prepared.port} ({error.strerror}): choose "
                "--broker-host anew.") from None
    return prepared


def _start_all(supervisor: Supervisor, options: UpOptions, *, url: str) -> None:
    # Spark takes longest to come up, and needs nothing of the database.
    agent = up_services.agent(node=options.node, slots=options.slots, data_dir=options.data_dir, url=url)
    site = (up_services.web(options, behind_proxy=_is_behind_proxy(os.environ)), up_services.worker(url=url))
    supervisor.run(
        channels(then=agent),
        Errand("prepare", (sys.executable, str(ROOT / "manage.py"), "prepare"), then=site),
    )  # fmt: skip
    supervisor.wait_until_ready(["web", "worker", "agent"], limit_s=READY_LIMIT_S)


def _welcome(options: UpOptions, *, seconds: float) -> None:
    host = "127.0.0.1" if options.host in ANYWHERE else options.host
    say(f"ready after {seconds:.0f} s: http://{f'[{host}]' if ':' in host else host}:{options.port}/")
    with suppress(OSError, ValueError):
        for login in json.loads((options.data_dir / "logins.json").read_text()):
            say(f"  log in as {login['username']:<12} password {login['password']:<16} ({login['role']})")
    say("Ctrl-C stops everything")


if __name__ == "__main__":
    sys.exit(main())
