"""The address of the broker (``REDIS_URL``): one server, or a service whose sentinels say which server is its primary.

``redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB`` names sentinels of Valkey or Redis. ``Redis.java``
reads the same form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

SCHEME = "redis+sentinel"
FORM = "redis+sentinel://:password@host:port,host:port/service/db"
SENTINEL_PORT = 26379
SENTINEL_OPTIONS = {"socket_connect_timeout": 1.0, "socket_timeout": 1.0}  # of a client that asks one
_PARTS = re.compile(rf"{re.escape(SCHEME)}://(?:(?P<user>[^:@/]*):(?P<password>[^@/]*)@)?(?P<hosts>[^@/?#]+)"
                    r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<db>\d+))?/?")
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[^:,\[\]\s]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class ReplicatedService:
    """A primary with its replicas, found by sentinels.

    Sentinels are asked without a password; ``username`` and ``password`` are for the primary.
    """

    sentinels: tuple[tuple[str, int], ...]
    name: str
    username: str
    password: str
    db: int

    def login(self) -> dict[str, Any]:
        """The arguments with which a client of redis-py connects to the primary."""
        credentials = {"username": self.username, "password": self.password}
        return {"db": self.db, **{name: value for name, value in credentials.items() if value}}


def replicated_service(url: str) -> ReplicatedService | None:
    """The service that an address names; None for the address of one server.

    Raises
    ------
    ValueError
        The address is of sentinels, and not of the form that they have.
    """
    if not url.startswith(f"{SCHEME}://"):
        return None
    parts = _PARTS.fullmatch(url)
    hosts = [_HOST.fullmatch(host) for host in parts["hosts"].split(",")] if parts else []
    if not parts or not all(hosts):
        raise ValueError(f"an address of sentinels has the form {FORM}")
    sentinels = tuple((host["host"].strip("[]"), int(host["port"] or SENTINEL_PORT)) for host in hosts if host)
    return ReplicatedService(
        sentinels, parts["service"], unquote(parts["user"] or ""), unquote(parts["password"] or ""),
        int(parts["db"] or 0))
