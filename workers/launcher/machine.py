"""`./weir machine`: further nodes of this machine, whose agents `./weir up` starts and stops while it works.

An order is a file of the data folder, ``machines/NODE.json``, with the arguments of `./weir agent`. It stays over
restarts of `./weir up`, and each node has its state in ``machines/NODE``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import environ
from pathlib import Path

from . import agent
from .process_start import say
from .state_folder import DATA_DIR_HELP, CannotStart, data_dir_of, write_private
from .supervise import Service, Supervisor

FOLDER, AGENT = "machines", "agent-"
MOST = 64  # nodes that one machine is asked for
LONGEST_ORDER = 4096  # bytes


@dataclass(frozen=True, slots=True)
class FurtherNode:
    """A further node of this machine: its name, and what `./weir agent` is given besides."""

    node: str
    arguments: tuple[str, ...]

    def service(self, data_dir: Path) -> Service:
        """The supervisor of its agent, as a process of `./weir up`."""
        return Service(
            f"{AGENT}{self.node}",
            (sys.executable, "-P", "-m", "workers.launcher.agent", *self.arguments, "--node", self.node,
             "--data-dir", str(data_dir / FOLDER / self.node)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Take one order; the exit code."""
    parser = argparse.ArgumentParser(
        prog="weir machine", description="Order a further node of this machine, which `./weir up` runs.",
        epilog="What follows the node is of `./weir agent`: --slots, --link, --delay-ms, --mbit.")
    parser.add_argument("action", choices=("start", "stop", "list"))
    parser.add_argument("node", nargs="?", default="", help="its name in the estate; no other's")
    parser.add_argument("--data-dir", type=Path, default=data_dir_of(environ), help=DATA_DIR_HELP)
    options, agent_options = parser.parse_known_args(arguments)
    data_dir = options.data_dir.expanduser().resolve()
    if options.action != "list" and not agent.NAME.fullmatch(options.node):
        parser.error("name the node: letters, digits, dots, dashes and underscores, 60 at most")
    try:
        if not data_dir.is_dir():
            raise CannotStart(f"There is no data folder {data_dir}: name that of `./weir up` with --data-dir.")
        {"start": _start, "stop": _stop, "list": _list}[options.action](data_dir, options.node, agent_options)
    except CannotStart as error:
        say(str(error))
        return 1
    return 0


def _start(data_dir: Path, node: str, options: Sequence[str]) -> None:
    agent.read_options([*options, "--node", node])  # ends with usage where they are none
    orders = data_dir / FOLDER
    orders.mkdir(mode=0o700, exist_ok=True)
    for further in ordered(data_dir):
        if further.node == node and further.arguments != tuple(options):
            raise CannotStart(
                f"{node} is ordered already, with {' '.join(further.arguments) or 'no options'}: drain it, and stop it "
                f"with `./weir machine stop {node}` first.")
    if not _order(data_dir, node).exists() and len(list(orders.glob("*.json"))) >= MOST:
        raise CannotStart(f"This machine has {MOST} further nodes: stop one with `./weir machine stop NODE`.")
    write_private(_order(data_dir, node), json.dumps(list(options)))
    say(f"{node} is ordered: `./weir up` starts its agent")


def _stop(data_dir: Path, node: str, _rest: Sequence[str]) -> None:
    _order(data_dir, node).unlink(missing_ok=True)
    say(f"{node} is stopped, or will be within seconds")


def _list(data_dir: Path, _node: str, _rest: Sequence[str]) -> None:
    for further in ordered(data_dir):
        print(further.node, *further.arguments)


def _order(data_dir: Path, node: str) -> Path:
    return data_dir / FOLDER / f"{node}.json"


def ordered(data_dir: Path) -> list[FurtherNode]:
    """The further nodes that were ordered, by name; a file that is no order is left out."""
    nodes = []
    for path in sorted((data_dir / FOLDER).glob("*.json"))[:MOST]:
        with suppress(OSError, ValueError):
            words = json.loads(path.read_bytes()[:LONGEST_ORDER])
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                nodes.append(FurtherNode(path.stem, tuple(words)))
    return nodes


def follow(supervisor: Supervisor, data_dir: Path) -> Callable[[], None]:
    """The turn that `./weir up` takes each second: start the agents of nodes that were ordered, and end those of
    others."""
    running: set[str] = set()  # nodes

    def turn() -> None:
        ordered_agents = {further.node: further for further in ordered(data_dir)}
        for node in running - ordered_agents.keys():
            if supervisor.end(f"{AGENT}{node}"):
                running.discard(node)
                _forget(data_dir, node)
        for node in ordered_agents.keys() - running:
            with suppress(OSError):  # as on a full disk: it is tried again with the next turn
                _give_key(data_dir, node)
                supervisor.start(ordered_agents[node].service(data_dir))
                running.add(node)

    return turn


def _give_key(data_dir: Path, node: str) -> None:
    """Let the node open teams' secrets, as a further machine is given the key by hand."""
    folder = data_dir / FOLDER / node
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):  # of a site whose key is WEIR_SECRETS_KEY
        write_private(folder / agent.KEY_FILE, (data_dir / agent.KEY_FILE).read_text())


def _forget(data_dir: Path, node: str) -> None:
    """Delete what a node kept, unless it has states of queries that were not removed: those may be wanted."""
    folder = data_dir / FOLDER / node
    queries = [path for path in (folder / "checkpoints").glob("*") if path.is_dir()]
    if any(not path.with_name(f"{path.name}.removed").exists() for path in queries):
        say(f"{node} had queries when it was stopped: their states are in {folder}, and go on if it is started again")
    else:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
