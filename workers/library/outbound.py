"""Asking another system over HTTP: one deadline for all of an exchange, and an address that was looked at.

A name is resolved once, each address that it resolves to is checked, and the checked one is connected to. A name that
the operator allows must not lead to this machine, to a link's own services or, unless the operator says so
(``WEIR_PRIVATE_ADDRESSES``), to private ranges; an address that the operator wrote itself may be any. No redirect is
followed and no proxy of the environment is used. Who sends a byte every now and then is ended at the deadline.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

READ_BYTES = 256 * 1024
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # NAT64: a gateway connects to the address of IPv4 at its end


class WrongAddress(Exception):
    """A name leads to where nothing may be asked; the text says where to."""


class Unanswered(Exception):
    """No whole answer came; the text says why, in a word or two."""


class TooLate(Unanswered):
    """The deadline came first."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and the body, cut off one byte beyond what was to be read; headers by their names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def is_literal(host: str) -> bool:
    """True where a host is an address, or this machine's own name, and no name that somebody else resolves."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def may_be_reached(address: str) -> bool:
    """True where a name may lead to an address, and to the one of IPv4 that a gateway finds in it."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return all(map(_is_open, [ip, *_within(ip)]))


def leads_here(host: str, port: int, *, within_s: float) -> bool:
    """True where a host is this machine, or link-local, where programs trust whoever asks; not where it does not
    resolve.

    Parameters
    ----------
    within_s : float
        Seconds for its name to be resolved.
    """
    try:
        addresses = _resolved(host, port, time.monotonic() + within_s)
    except OSError:
        return False
    return not all(map(is_elsewhere, addresses))


def is_elsewhere(address: str) -> bool:
    """True where an address, and the one of IPv4 that a gateway finds in it, is neither this machine nor link-local."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return not any(map(_is_near, [ip, *_within(ip)]))


def _within(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF) if ip in _TRANSLATED else None
    return [address for address in (ip.sixtofour, *(ip.teredo or ()), translated) if address is not None]


def _is_open(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if _is_near(ip):
        return False
    return ip.is_global or os.environ.get("WEIR_PRIVATE_ADDRESSES", "").strip() == "1"


def _is_near(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip.is_reserved


class Line:
    """A connection to a host, which is made when it is first asked and kept as long as the other side does.

    Parameters
    ----------
    host : str
        A name, or an address without brackets.
    is_trusted : bool, optional
        The operator wrote this very address into the settings: wherever it leads is meant.
    require_address : callable, optional
        Raises where a name may not lead to an address.
    """

    def __init__(
        self, scheme: str, host: str, port: int, *, is_trusted: bool = False,
        require_address: Callable[[str], None] | None = None
    ) -> None:
        self._host, self._port, self._may_be_any = host, port, is_trusted or is_literal(host)
        self._require_address = require_address or self._require_open
        self._connection = (
            http.client.HTTPSConnection(host, port, context=ssl.create_default_context()) if scheme == "https"
            else http.client.HTTPConnection(host, port))
        # The hook of http.client by which a connection is made: the name was resolved and checked already.
        self._connection._create_connection = self._connected  # type: ignore[attr-defined]
        self._socket_copy: socket.socket | None = None
        self._until_s = 0.0
        self._is_late = False

    def ask(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None, deadline_s: float,
        most_bytes: int
    ) -> HttpAnswer:
        """Send a request and read its answer.

        Parameters
        ----------
        deadline_s : float
            Seconds for all of it: resolving, connecting, sending, waiting and reading.
        most_bytes : int
            So much of the answer is read, and one byte more where there is more.

        Raises
        ------
        WrongAddress
            The name leads to where nothing may be asked.
        Unanswered
            No whole answer came; ``TooLate`` at the deadline.
        """
        self._until_s, self._is_late = time.monotonic() + deadline_s, False
        if self._connection.sock is not None:
            self._connection.sock.settimeout(deadline_s)
        watch = threading.Timer(deadline_s, self._cut)
        watch.daemon = True
        watch.start()
        try:
            self._connection.request(method, target, body=body, headers=dict(headers))
            answer = self._connection.getresponse()
            content = _content(answer, most_bytes)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            if self._is_late or isinstance(error, TimeoutError):
                raise TooLate(f"not within {deadline_s:.3g} s") from None
            raise Unanswered(type(error).__name__) from None
        except BaseException:
            self.close()
            raise
        finally:
            watch.cancel()
        if self._is_late:  # what came until then may look like the end
            self.close()
            raise TooLate(f"not within {deadline_s:.3g} s")
        if answer.will_close or not answer.isclosed():
            self.close()
        return HttpAnswer(answer.status, content, {name.lower(): value for name, value in answer.getheaders()})

    def close(self) -> None:
        """Let the connection go; the next question makes another."""
        self._connection.close()
        if self._socket_copy is not None:
            self._socket_copy.close()
            self._socket_copy = None

    def _cut(self) -> None:
        """End the exchange at its deadline: a thread that waits for the other side gets the end of the connection."""
        self._is_late = True
        handle = self._socket_copy
        with suppress(OSError):
            if handle is not None:
                handle.shutdown(socket.SHUT_RDWR)

    def _connected(self, *_: object, **__: object) -> socket.socket:
        address = self._address()
        made = socket.create_connection((address, self._port), timeout=max(0.001, self._until_s - time.monotonic()))
        made.settimeout(max(0.001, self._until_s - time.monotonic()))
        self._socket_copy = made.dup()  # the connection itself may be TLS's by the time that it is cut
        if self._is_late:
            made.close()
            raise TimeoutError
        return made

    def _address(self) -> str:
        addresses = _resolved(self._host, self._port, self._until_s)
        for address in addresses:
            if not self._may_be_any:
                self._require_address(address)
        return addresses[0]

    def _require_open(self, address: str) -> None:
        if not may_be_reached(address):
            raise WrongAddress(f"{self._host} leads to {address}, which names may not lead to")


def _resolved(host: str, port: int, until_s: float) -> list[str]:
    """The addresses of a host; the resolver, which nobody can interrupt, is left behind at the deadline."""
    addresses: list[str] = []

    def resolve() -> None:
        with suppress(OSError, UnicodeError):
            addresses.extend(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    if is_literal(host):
        resolve()
    else:
        thread = threading.Thread(target=resolve, daemon=True)
        thread.start()
        thread.join(max(0.0, until_s - time.monotonic()))
        if thread.is_alive():
            raise TimeoutError
    if not addresses:
        raise OSError("the name does not resolve")
    return addresses


def _content(answer: http.client.HTTPResponse, most_bytes: int) -> bytes:
    """The body, or one byte more than is wanted of it."""
    content = bytearray()
    while len(content) <= most_bytes and (part := answer.read1(min(READ_BYTES, most_bytes + 1 - len(content)))):
        content += part  # a list of parts would take twenty times as much of who sends two bytes at a time
    if answer.length == 0:
        answer.read()  # nothing: only this lets the connection be used again
    return bytes(content)
