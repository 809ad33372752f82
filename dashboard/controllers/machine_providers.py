"""Providers of machines: who starts and stops what adaptation orders.

`MachineProvider` is the port. `CommandProvider` runs a command of the operator, `WebhookProvider` posts to an address
of the operator; without either there is no provider, and no machine is ordered. Each order may be given again: after a
worker was killed, nobody knows whether it was carried out.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Protocol

from django.conf import settings

from dashboard.controllers.models import MachineOrder
from dashboard.outbox.webhook_posts import HostNotAllowed, NotDelivered, post_json

COMMAND_S = 60.0  # for one command; then it is killed, with what it started in its process group
MOST_OUTPUT = 2000  # bytes that are kept of what it says
LOOKS_EVERY_S = 0.1
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")  # nothing of Weir's, which has keys and passwords


class MachineNotOrdered(Exception):
    """A provider did not take an order; what it said goes into the page."""


class MachineProvider(Protocol):
    """Starts and stops machines; each raises `MachineNotOrdered` where that was not begun."""

    def start(self, order: MachineOrder) -> None:
        """See that a machine of the order's size comes, with an agent for its node; nothing where it is there."""

    def stop(self, order: MachineOrder) -> None:
        """See that the machine goes and is paid no longer; nothing where there is none."""


class CommandProvider:
    """Runs a program for each order, without a shell and without Weir's environment.

    Parameters
    ----------
    command : sequence of str
        Its arguments, in which ``{action}``, ``{node}``, ``{size}`` and ``{slots}`` are filled in one by one.
    """

    def __init__(self, command: Sequence[str], *, within_s: float = COMMAND_S) -> None:
        self._command, self._within_s = tuple(command), within_s

    def start(self, order: MachineOrder) -> None:
        """Run it with the action ``start``."""
        self._run("start", order)

    def stop(self, order: MachineOrder) -> None:
        """Run it with the action ``stop``."""
        self._run("stop", order)

    def _run(self, action: str, order: MachineOrder) -> None:
        argv = [word.format(action=action, node=order.node, size=order.size, slots=order.slots)
                for word in self._command]
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                cwd="/", start_new_session=True)
        except (OSError, ValueError) as error:
            raise MachineNotOrdered(f"{argv[0]} cannot be run: {error}.") from error
        output, is_late = _output_of(process, within_s=self._within_s)
        if is_late:
            raise MachineNotOrdered(f"{argv[0]} did not end within {self._within_s:g} s. {output}".strip())
        if process.returncode:
            raise MachineNotOrdered(f"{argv[0]} ended with {process.returncode}. {output}".strip())


class WebhookProvider:
    """Posts each order as JSON to an address of the operator, with the deadline of all deliveries.

    Parameters
    ----------
    url : str
        ``http`` or ``https``; it may be private, for the operator has written it into the settings.
    key : str, optional
        Sent as ``Authorization: Bearer`` if given.
    """

    def __init__(self, url: str, key: str = "") -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"} if key else {}

    def start(self, order: MachineOrder) -> None:
        """Post the action ``start``."""
        self._post("start", order)

    def stop(self, order: MachineOrder) -> None:
        """Post the action ``stop``."""
        self._post("stop", order)

    def _post(self, action: str, order: MachineOrder) -> None:
        body = {"action": action, "node": order.node, "size": order.size, "slots": order.slots}
        try:
            post_json(self._url, json.dumps(body).encode(), self._headers, is_operators=True)
        except (NotDelivered, HostNotAllowed) as error:
            raise MachineNotOrdered(str(error)) from error


def machine_provider() -> MachineProvider | None:
    """The provider that the settings name; None where there is none."""
    if settings.MACHINE_COMMAND:
        return CommandProvider(settings.MACHINE_COMMAND)
    return WebhookProvider(settings.MACHINE_WEBHOOK, settings.MACHINE_KEY) if settings.MACHINE_WEBHOOK else None


def _output_of(process: subprocess.Popen[bytes], *, within_s: float) -> tuple[str, bool]:
    """Wait for a process; the beginning of its output, and whether it had to be killed.

    All of its output is read, so that it never blocks on it. Processes that it leaves behind are not waited for.
    """
    pipe = process.stdout
    if pipe is None:
        raise ValueError("the process has no pipe")
    output, ends_s, is_late, is_open = b"", time.monotonic() + within_s, False, True
    os.set_blocking(pipe.fileno(), False)
    with pipe:
        while True:
            is_over = process.poll() is not None  # before the read: its output until then is in the pipe
            if is_open and select.select([pipe], [], [], 0.0 if is_over else LOOKS_EVERY_S)[0]:
                part = os.read(pipe.fileno(), 1 << 16)
                is_open = bool(part)
                output = (output + part)[:MOST_OUTPUT]
            elif not is_open and not is_over:
                time.sleep(LOOKS_EVERY_S)
            if is_over:
                break
            if time.monotonic() >= ends_s:
                is_late = True
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                break
    return output.decode("utf-8", "replace").replace("\0", "").strip(), is_late
