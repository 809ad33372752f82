"""Network namespaces joined to this one by veth, delay and bandwidth by tc: Linux, for root, with iproute2.

    this namespace, wl<n>a 10.83.<n>.1/30  ──  wl<n>b 10.83.<n>.2/30, namespace weir-<node>
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NETWORK = "10.83"  # of private addresses; a /30 for each link
LINKS = 256
TIMEOUT_S = 20
BURST, WAITS = "128kb", "500ms"  # what leaves at once, and how long a full queue gets, where the kernel limits the rate
LOCK = Path(tempfile.gettempdir()) / "weir-links.lock"


class NotAllowed(Exception):
    """The kernel, or its tools, do not give what is wanted; the message says what, and why."""


@dataclass(frozen=True, slots=True)
class JoinedNamespace:
    """A namespace that is there, and joined: this machine's address on the link, and what tc does there."""

    name: str
    host: str
    interface: str  # this machine's end
    delays: bool
    limits: bool

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The same command inside."""
        return ("ip", "netns", "exec", self.name, *argv)

    def remove(self) -> None:
        """Delete the namespace and both ends of the link; gone already is fine."""
        for argv in (("ip", "link", "delete", self.interface), ("ip", "netns", "delete", self.name)):
            with suppress(NotAllowed):
                _run(argv)


def join(node: str, *, delay_ms: float, mbit_per_s: float | None) -> JoinedNamespace:
    """Make a namespace for a node, in place of one that a node of this name has left, and join it.

    Parameters
    ----------
    delay_ms : float
        In each direction; done by the kernel where it has netem.
    mbit_per_s : float, optional
        Bandwidth in each direction; done by the kernel where it has netem or tbf.

    Raises
    ------
    NotAllowed
        Not root, no iproute2, no namespaces or no veth in the kernel; or processes run in a namespace of this name.
    """
    why_not = _why_not()
    if why_not:
        raise NotAllowed(why_not)
    name = f"weir-{node}"
    with _one_at_a_time():
        _clear(name)
        number = _free_number()
        outside, inside = f"wl{number}a", f"wl{number}b"
        host, guest = (f"{NETWORK}.{number}.{end}" for end in (1, 2))
        _run(("ip", "netns", "add", name))
        try:
            _run(("ip", "link", "add", outside, "type", "veth", "peer", "name", inside))
            _run(("ip", "link", "set", inside, "netns", name))
            _run(("ip", "addr", "add", f"{host}/30", "dev", outside))
            _run(("ip", "link", "set", outside, "up"))
            _run(("ip", "-n", name, "link", "set", "lo", "up"))  # a driver speaks with its JVM there
            _run(("ip", "-n", name, "addr", "add", f"{guest}/30", "dev", inside))
            _run(("ip", "-n", name, "link", "set", inside, "up"))
            delays, limits = _shape(name, (outside, inside), delay_ms=delay_ms, mbit_per_s=mbit_per_s)
        except NotAllowed:
            JoinedNamespace(name, host, outside, False, False).remove()
            raise
    return JoinedNamespace(name, host, outside, delays, limits)


def _shape(
    name: str, interfaces: tuple[str, str], *, delay_ms: float, mbit_per_s: float | None
) -> tuple[bool, bool]:
    """Have the kernel delay and limit what leaves both ends; which of the two it does."""
    ends = (("tc", "qdisc", "replace", "dev", interfaces[0], "root"),
            ("tc", "-n", name, "qdisc", "replace", "dev", interfaces[1], "root"))
    rate = ("rate", f"{mbit_per_s:g}mbit") if mbit_per_s else ()
    if delay_ms and _all_run(ends, ("netem", "limit", "20000", "delay", f"{delay_ms:g}ms", *rate)):
        return True, bool(mbit_per_s)
    return False, bool(mbit_per_s) and _all_run(ends, ("tbf", *rate, "burst", BURST, "latency", WAITS))


def _all_run(ends: Sequence[tuple[str, ...]], discipline: tuple[str, ...]) -> bool:
    """Whether the kernel takes a queueing discipline; where it does not, none is there."""
    try:
        for end in ends:
            _run((*end, *discipline))
    except NotAllowed:
        return False
    return True


def _clear(name: str) -> None:
    """Remove what a node that was killed has left; its link goes with the namespace."""
    if name not in _names():
        return
    pids = _run(("ip", "netns", "pids", name)).split()
    if pids:
        raise NotAllowed(f"processes run in the network namespace {name} already ({', '.join(pids[:5])})")
    _run(("ip", "netns", "delete", name))


def _names() -> set[str]:
    return {line.split()[0] for line in _run(("ip", "netns", "list")).splitlines() if line.strip()}


def _free_number() -> int:
    taken = _run(("ip", "-o", "-4", "addr")) + _run(("ip", "-o", "link"))
    for number in range(LINKS):
        if f" {NETWORK}.{number}." not in taken and f" wl{number}a" not in taken:
            return number
    raise NotAllowed(f"all {LINKS} links of {NETWORK}.0.0/16 are taken")


def _why_not() -> str:
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"{' and '.join(missing)} of iproute2 cannot be run"
    return "" if os.geteuid() == 0 else "only root may make network namespaces"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _run(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAllowed(f"`{' '.join(argv)}` does not run: {error}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
        raise NotAllowed(f"`{' '.join(argv)}` says: {reason}")
    return done.stdout
