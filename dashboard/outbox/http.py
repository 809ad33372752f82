"""Posting JSON to an address that somebody gave: to hosts that the operator named, and nowhere else.

No redirect is followed and no proxy of the environment is used. A name is resolved once, what it resolves to is
checked, and that very address is connected to: a name that points at this machine, or at a link's own services, is
refused unless the operator wrote that address itself.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from django.conf import settings

from scheduler.model.errors import WeirError

USUAL_PORTS = {"http": 80, "https": 443}
TIMEOUT_S = 5.0
MOST_READ = 2048


class HostNotAllowed(WeirError):
    """The operator has not named the host of an address, or it leads to where nothing may be sent."""

    code = "host_not_allowed"


class NotDelivered(Exception):
    """The receiver did not take it; what it says goes into the page."""


def require_allowed(url: str) -> None:
    """Raise ``HostNotAllowed`` where the operator does not let Weir post to an address."""
    _target(url)


def post_json(
    url: str, body: bytes, headers: Mapping[str, str], *, is_operators: bool = False, timeout_s: float = TIMEOUT_S
) -> None:
    """Post once; ``NotDelivered`` unless the answer is a success, ``HostNotAllowed`` where it may not be asked.

    Parameters
    ----------
    url : str
        Where to; its host is looked up in ``WEIR_WEBHOOK_HOSTS`` again.
    body : bytes
        JSON.
    headers : mapping
        Besides the content type.
    is_operators : bool, optional
        The operator wrote the address into the settings: it needs no other leave.
    timeout_s : float, optional
        Of connecting, and of each wait for an answer.
    """
    scheme, host, port, is_named = _target(url, is_operators=is_operators)
    connection = _connection(scheme, host, port, address=_address(host, port, is_named=is_named), timeout_s=timeout_s)
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        answer_text = answer.read(MOST_READ).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"{host} did not answer: {type(error).__name__}.") from None
    finally:
        connection.close()
    if 300 <= answer.status < 400:
        raise NotDelivered(f"{host} answered {answer.status}: redirects are not followed. Give the final address.")
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"{host} answered {answer.status}. {answer_text[:200]}".strip())


def _target(url: str, *, is_operators: bool = False) -> tuple[str, str, int, bool]:
    """Scheme, host, port, and whether whatever it leads to may be reached."""
    parts = urlsplit(url)
    try:
        host, port = (parts.hostname or "").lower(), parts.port or USUAL_PORTS[parts.scheme]
    except (ValueError, KeyError):
        host, port = "", 0
    if not host or parts.username or parts.password or any(char in url for char in "\r\n\0 "):
        raise HostNotAllowed("The address cannot be read.", remedy="Write https://host/path, without a user.")
    written = f"[{host}]" if ":" in host else host
    allowed = {name.lower() for name in settings.WEBHOOK_HOSTS}
    if is_operators:
        return parts.scheme, host, port, True
    if f"{written}:{port}" not in allowed and (written not in allowed or port not in USUAL_PORTS.values()):
        raise HostNotAllowed(
            f"Weir may not post to {written}:{port}.",
            remedy=f"Ask the operator to name {written}:{port} in WEIR_WEBHOOK_HOSTS.", host=f"{written}:{port}")
    return parts.scheme, host, port, _is_literal(host)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _address(host: str, port: int, *, is_named: bool) -> str:
    """The address that a host has now, one that may be connected to."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise NotDelivered(f"{host} is not known: the name does not resolve.") from None
    address = str(addresses[0][4][0])
    if not is_named and not _may_be_reached(address):
        raise HostNotAllowed(
            f"{host} leads to {address}, which is no other machine's.",
            remedy="Where that is meant, ask the operator to name the address itself in WEIR_WEBHOOK_HOSTS.", host=host)
    return address


def _may_be_reached(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip.is_reserved)


def _connection(
    scheme: str, host: str, port: int, *, address: str, timeout_s: float
) -> http.client.HTTPConnection:
    """A connection to an address that goes by the host's name, in TLS too."""
    if scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=timeout_s, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    # The hook of http.client by which a connection is made: the name was resolved and checked already.
    connection._create_connection = (
        lambda _, *args, **kwargs: socket.create_connection((address, port), *args, **kwargs))
    return connection
