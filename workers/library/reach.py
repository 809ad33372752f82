"""The reach of connectors: hosts that the operator names (``WEIR_CONNECTOR_HOSTS``); by default there are none.

``WEIR_SINK_HOSTS`` names those that may be written to, where these are others than may be read from."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Mapping
from typing import Protocol

from scheduler.model.bounds import CLUSTER_SERVERS

from .config import InvalidConfig
from .outbound import is_elsewhere, leads_here

VARIABLE, FOR_SINKS = "WEIR_CONNECTOR_HOSTS", "WEIR_SINK_HOSTS"
HERE = ("localhost", "127.0.0.1", "[::1]")  # names of this machine
SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:\d{1,5})?"  # host, with a port or without


def host_and_port(server: str, *, usual_port: int) -> tuple[str, int]:
    """A server's host and port, from ``host`` or ``host:port``; ``InvalidConfig`` where it is neither."""
    parts = re.fullmatch(SERVER, server)
    if parts is None:
        raise InvalidConfig(f"“{server}” is no server.", remedy="Write host or host:port.", server=server)
    port = int(parts[2][1:]) if parts[2] else usual_port
    return parts[1].strip("[]").lower(), port


def allowed_hosts(
    variable: str = VARIABLE, *, writes: bool = False, environment: Mapping[str, str] | None = None
) -> frozenset[str]:
    """The hosts that may be reached, in lower case, with a port where one is named: without, the usual one.

    Parameters
    ----------
    writes : bool, optional
        Those that may be written to: ``WEIR_SINK_HOSTS`` names them, if it names any.
    """
    env = os.environ if environment is None else environment
    named = env.get(variable_for(variable, writes=writes, environment=env), "")
    return frozenset(host.strip().lower() for host in named.split(",") if host.strip())


def variable_for(variable: str, *, writes: bool, environment: Mapping[str, str] | None = None) -> str:
    """The setting that counts: that of sinks for what writes, where it names any host."""
    env = os.environ if environment is None else environment
    return FOR_SINKS if writes and env.get(FOR_SINKS, "").strip() else variable


def require_allowed(server: str, *, usual_port: int, writes: bool = False) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow a server's host and port to be read, or written to."""
    host, port = host_and_port(server, usual_port=usual_port)
    shown = f"[{host}]" if ":" in host else host
    allowed = allowed_hosts(writes=writes)
    if f"{shown}:{port}" not in allowed and not (shown in allowed and port == usual_port):
        raise InvalidConfig(
            f"{'Sinks may not write to' if writes else 'Connectors may not reach'} {shown}:{port}.",
            remedy=f"Ask the operator to name {shown}:{port} in {variable_for(VARIABLE, writes=writes)}.",
            host=f"{shown}:{port}")


def require_elsewhere(address: str, *, port: int, usual_port: int, writes: bool = False) -> None:
    """Raise ``InvalidConfig`` where the address that a server's name leads to is link-local, or this machine, unless
    the operator named that with the port: programs there trust whoever asks, and names are somebody else's."""
    is_meant = bool(_with_port(HERE, port, usual_port=usual_port) & allowed_hosts(writes=writes))
    if not is_elsewhere(address) and not (is_meant and ipaddress.ip_address(address.partition("%")[0]).is_loopback):
        raise InvalidConfig(
            f"The server's name leads to {address}, which is this machine or link-local.",
            remedy="Have it lead to the server. Where this machine is meant, ask the operator to name "
                   f"127.0.0.1:{port} in {variable_for(VARIABLE, writes=writes)}, too.", host=address)


def _with_port(names: Collection[str], port: int, *, usual_port: int) -> set[str]:
    """These names as the operator may write them for that port."""
    return {f"{name}:{port}" for name in names} | (set(names) if port == usual_port else set())


class ClusterMember(Protocol):
    """A server of a cluster, as the cluster says it."""

    host: str
    port: int


def require_members(
    servers: Collection[ClusterMember], *, usual_port: int, writes: bool = False, within_s: float = 5.0
) -> None:
    """Raise ``InvalidConfig`` where a cluster that may be reached says that one of its servers is this machine, or that
    it has very many: a client has a thread for each.

    Its servers may be others than those that the operator named, for a cluster says which it has; but none of them may
    be this machine, or link-local, unless the operator named it, by whichever name of this machine's.

    Parameters
    ----------
    servers : collection of ClusterMember
        As the cluster says them.
    within_s : float, optional
        Seconds for a name to be resolved.
    """
    if len(servers) > CLUSTER_SERVERS.most:
        raise InvalidConfig(
            f"The cluster says that it has {len(servers):,} servers, more than {CLUSTER_SERVERS.most}.",
            remedy="Name servers of a cluster that you trust.")
    allowed = allowed_hosts(writes=writes)
    for server in servers:
        host, port = server.host.lower(), server.port
        shown = f"[{host}]" if ":" in host else host
        names = [*HERE, shown]
        if not _with_port(names, port, usual_port=usual_port) & allowed and leads_here(host, port, within_s=within_s):
            raise InvalidConfig(
                f"The cluster says that one of its servers is {shown}:{port}, which is on this machine.",
                remedy="Have it advertise an address that other machines reach, or ask the operator to name "
                       f"{shown}:{port} in {variable_for(VARIABLE, writes=writes)}.", host=f"{shown}:{port}")
