"""The link of a node: how it is asked for, made and told, and the address by which the node then reaches the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from .namespaces import JoinedNamespace, NotAllowed, join
from .relay import Relay
from .shaping import Shaper

How = Literal["auto", "netns", "relay"]
BYTES_PER_MBIT = 125_000.0
LOOPBACK = "127.0.0.1"


class NoLink(Exception):
    """The link cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """A link as it is asked for: ``netns`` or nothing, ``relay``, or whichever can be had (``auto``)."""

    how: How
    delay_ms: float = 0.0  # in each direction
    mbit_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link that is there: the broker's address on it, and what it is, in words."""

    url: str
    words: str
    joined: JoinedNamespace | None = None

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """A command as it is run at the node's end."""
        return tuple(argv) if self.joined is None else self.joined.command(argv)


@contextmanager
def linked(node: str, url: str, request: LinkRequest) -> Iterator[Link]:
    """A link from a node to the broker; afterwards nothing of it is left.

    Raises
    ------
    NoLink
        The kernel does not allow what is asked for, or the broker speaks TLS, which names its host, or is several.
    """
    parts = urlsplit(url)
    if parts.scheme != "redis" or parts.hostname is None:
        raise NoLink(
            f"A link needs one broker without TLS, at redis://, not {parts.scheme}://: give the address of that one.")
    joined, why_not = _joined(node, request)
    try:
        delays, limits = (joined.delays, joined.limits) if joined is not None else (False, False)
        delay_s = 0.0 if delays else request.delay_ms / 1000
        bytes_per_s = None if limits or request.mbit_per_s is None else request.mbit_per_s * BYTES_PER_MBIT
        relay = Relay((parts.hostname, parts.port or 6379), onward=Shaper(delay_s, bytes_per_s),
                      back=Shaper(delay_s, bytes_per_s))
        host = LOOPBACK if joined is None else joined.host
        port = relay.start(host)
        try:
            login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
            address = parts._replace(netloc=f"{login}{host}:{port}").geturl()
            yield Link(address, _words(request, joined, why_not), joined)
        finally:
            relay.stop()
    finally:
        if joined is not None:
            joined.remove()


def _joined(node: str, request: LinkRequest) -> tuple[JoinedNamespace | None, str]:
    """The namespace, if one is wanted; if it may be missing, and is, the reason."""
    if request.how == "relay":
        return None, ""
    try:
        return join(node, delay_ms=request.delay_ms, mbit_per_s=request.mbit_per_s), ""
    except NotAllowed as error:
        if request.how == "netns":
            raise NoLink(
                f"No network namespace for {node}: {error}. Run it as root on Linux with iproute2, or take "
                "--link relay, which delays what goes to the broker and comes from it.") from None
        return None, str(error)


def _words(request: LinkRequest, joined: JoinedNamespace | None, why_not: str) -> str:
    """What the link is and who does it, so that nobody takes a relay for a network."""
    by_kernel = [name for name, done in (
        ("delay", joined is not None and joined.delays), ("bandwidth", joined is not None and joined.limits)) if done]
    by_relay = [name for name, amount in (("delay", request.delay_ms), ("bandwidth", request.mbit_per_s))
                if amount and name not in by_kernel]
    costs = [f"{request.delay_ms:g} ms each way"] if request.delay_ms else []
    costs += [f"{request.mbit_per_s:g} Mbit/s"] if request.mbit_per_s else []
    where = f"network namespace {joined.name}, veth" if joined is not None else "relay on this machine"
    done = [f"{' and '.join(names)} by {whom}" for names, whom in ((by_kernel, "tc"), (by_relay, "a relay")) if names]
    return "; ".join([", ".join(costs) or "no delay", ", ".join([where, *done]),
                      *([f"no namespace: {why_not}"] if why_not else [])])
