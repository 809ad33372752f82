"""The broker's address as libraries have it that bring clients of their own."""

from __future__ import annotations

import socket
from typing import Any

from workers.broker_address import SCHEME, SENTINEL_OPTIONS, replicated_service

# The kernel ends a connection to a machine that died in silence: after 5 s without a word, and three questions. Celery
# alone needs it: its connections wait for jobs without an end.
KEEPALIVE: dict[int, int] = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)}


def celery_address(url: str) -> tuple[str, dict[str, Any]]:
    """The address as Celery has it, and the options of its transport that go with it."""
    service = replicated_service(url)
    if service is None:
        return url, {}
    login = url.removeprefix(f"{SCHEME}://").rpartition("@")[0]
    hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in service.sentinels)
    addresses = (f"sentinel://{f'{login}@' if login else ''}{host}/{service.db}" for host in hosts)
    return ";".join(addresses), {
        "master_name": service.name, "sentinel_kwargs": SENTINEL_OPTIONS, "socket_keepalive_options": KEEPALIVE}


def layer_address(url: str) -> dict[str, Any]:
    """The address as the layer of Django Channels has it."""
    service = replicated_service(url)
    if service is None:
        return {"address": url}
    return {"master_name": service.name, "sentinels": list(service.sentinels), "sentinel_kwargs": SENTINEL_OPTIONS,
            **service.login(), "socket_connect_timeout": 2.0}
