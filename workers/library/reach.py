"""Where connectors may go: hosts that the operator names (``WEIR_CONNECTOR_HOSTS``); by default there are none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from .config import InvalidConfig

VARIABLE = "WEIR_CONNECTOR_HOSTS"
SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:\d{1,5})?"  # host, with a port or without


def host_and_port(server: str, *, usual_port: int) -> tuple[str, int]:
    """A server's host and port, from ``host`` or ``host:port``; ``InvalidConfig`` where it is neither."""
    parts = re.fullmatch(SERVER, server)
    if parts is None:
        raise InvalidConfig(f"“{server}” is no server.", remedy="Write host or host:port.", server=server)
    port = int(parts[2][1:]) if parts[2] else usual_port
    return parts[1].strip("[]").lower(), port


def allowed_hosts(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """The hosts that connectors may reach, in lower case, with a port where one is named: without, the usual one."""
    env = os.environ if environment is None else environment
    return frozenset(host.strip().lower() for host in env.get(VARIABLE, "").split(",") if host.strip())


def require_allowed(server: str, *, usual_port: int) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow a server's host and port."""
    host, port = host_and_port(server, usual_port=usual_port)
    shown = f"[{host}]" if ":" in host else host
    allowed = allowed_hosts()
    if f"{shown}:{port}" not in allowed and not (shown in allowed and port == usual_port):
        raise InvalidConfig(
            f"Connectors may not reach {shown}:{port}.",
            remedy=f"Ask the operator to name {shown}:{port} in {VARIABLE}.", host=f"{shown}:{port}")
