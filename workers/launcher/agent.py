"""`./weir agent`: the slots of a further machine, for a system that runs elsewhere, until a signal says stop."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from workers import broker_client

from . import broker, state_folder, up_services
from .links.link import How, Link, LinkRequest, NoLink, linked
from .process_logs import Logs
from .process_start import READY_LIMIT_S, channels, engine_environment, say, shown, stopped_at_the_end
from .state_folder import CannotStart
from .supervise import Supervisor

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
KEY_FILE = "secrets_key"
MOST_DELAY_MS, MOST_MBIT = 1_000, 100_000


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of `./weir agent`."""

    node: str
    slots: int
    data_dir: Path
    link: LinkRequest | None = None  # to the broker; None: as it is


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped; the exit code."""
    options = read_options(arguments)
    began_s = time.monotonic()
    try:
        url = _broker_url()
        with state_folder.full_disk_named(options.data_dir), state_folder.lock(options.data_dir):
            _require_name(options, url)
            if options.link is None:
                return _serve(options, Link(url, ""), began_s=began_s)
            with linked(options.node, url, options.link) as link:
                return _serve(options, link, began_s=began_s)
    except (CannotStart, NoLink) as error:
        say(str(error))
        return 1


def read_options(arguments: Sequence[str] | None) -> AgentOptions:
    """The options from the command line, the environment and the defaults, in this order."""
    env = os.environ
    parser = argparse.ArgumentParser(
        prog="weir agent", description="Serve a system that runs on another machine with this one's slots.",
        epilog="REDIS_URL names the broker of that system.")
    node = env.get("WEIR_NODE", "").strip()
    parser.add_argument(
        "--node", default=node or None, required=not node, help="this machine's name in the estate; no other's")
    slots = env.get("WEIR_SLOTS") or "2"
    parser.add_argument("--slots", type=int, default=slots, help="Spark drivers, one core each (%(default)s)")
    folder = state_folder.data_dir_of(env)
    parser.add_argument("--data-dir", type=Path, default=folder, help=state_folder.DATA_DIR_HELP)
    parser.add_argument(
        "--link", choices=get_args(How), help="a link to the broker that costs something, for several nodes on one "
        "machine: a network namespace of its own (netns), a relay, or whichever works (auto)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of the link, each way (%(default)g)")
    parser.add_argument("--mbit", type=float, help="bandwidth of the link, each way, in Mbit/s; else unlimited")
    options = parser.parse_args(arguments)
    if not 0 <= options.delay_ms <= MOST_DELAY_MS:
        parser.error(f"--delay-ms must be from 0 to {MOST_DELAY_MS}")
    if options.mbit is not None and not 0 < options.mbit <= MOST_MBIT:
        parser.error(f"--mbit must be above 0, and {MOST_MBIT:,} at most")
    if options.link is None and (options.delay_ms or options.mbit is not None):
        parser.error("--delay-ms and --mbit are of a link: add --link auto")
    if not NAME.fullmatch(options.node):
        parser.error("--node must be letters, digits, dots, dashes and underscores, 60 at most")
    if options.slots < 1:
        parser.error("--slots must be 1 or more")
    link = LinkRequest(options.link, options.delay_ms, options.mbit) if options.link else None
    data_dir = options.data_dir.expanduser().resolve()
    return AgentOptions(node=options.node, slots=options.slots, data_dir=data_dir, link=link)


def _broker_url() -> str:
    url = os.environ.get("REDIS_URL", "").strip()
    if not url:
        raise CannotStart(
            "REDIS_URL is not set: give the address of the other machine's broker, with its password, as "
            "redis://:PASSWORD@HOST:PORT/0 (see \"Several machines\" in docs/operations.md).")
    if not broker.answers(url):
        raise CannotStart(
            f"No broker answers at {shown(url)}: check the address, the password, and that this machine may reach it.")
    return url


def _require_name(options: AgentOptions, url: str) -> None:
    """Two machines of one name would wait for each other: the second is told instead."""
    owner = options.data_dir / "nodes" / options.node / "owner"
    with broker_client.connect(url, socket_timeout=5) as client:
        holder = client.get(f"weir:lease:{options.node}")
    if holder is not None and not (owner.is_file() and owner.read_text().encode() == holder):
        raise CannotStart(
            f"{options.node} is served by an agent with another data folder: choose another --node, or stop that one "
            "and wait ten seconds.")


def _serve(options: AgentOptions, link: Link, *, began_s: float) -> int:
    say(f"state and logs in {options.data_dir}")
    if not os.environ.get("WEIR_SECRETS_KEY") and not (options.data_dir / KEY_FILE).exists():
        say(f"no key for teams' secrets here: set WEIR_SECRETS_KEY, or copy {KEY_FILE} from the site's data folder")
    supervisor = Supervisor(
        logs=Logs(options.data_dir / "logs"), folder=options.data_dir, stages=up_services.STOP_STAGES, say=say,
        environment={
            **engine_environment(url=link.url, data_dir=options.data_dir, node=options.node, slots=options.slots),
            "WEIR_LINK": link.words},
    )  # fmt: skip
    if link.words:
        say(f"{options.node} is joined to the broker by a link: {link.words}")
    supervisor.take_signals()
    with stopped_at_the_end(supervisor):
        service = up_services.agent(node=options.node, slots=options.slots, data_dir=options.data_dir, url=link.url)
        supervisor.run(channels(then=replace(service, argv=link.command(service.argv))))
        supervisor.wait_until_ready(["agent"], limit_s=READY_LIMIT_S)
        if not supervisor.is_stopping:
            say(f"{options.node} ready after {time.monotonic() - began_s:.0f} s, for the broker at {shown(link.url)}")
            say("Ctrl-C stops it")
        supervisor.keep_running()
    return 0


if __name__ == "__main__":
    sys.exit(main())
