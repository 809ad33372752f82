"""Machines that are lost with all that is on them, of nodes that hold copies of one another's state."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from workers.engine.channels import keys

from .rig import Hosts, Rig


def are_copied(hosts: Hosts, queries: Iterable[str], holders: Iterable[str]) -> None:
    """Wait until each of these has a whole copy on one of these nodes, newer than what is there now."""
    nodes = list(holders)

    def copies_of(name: str) -> set[bytes | None]:
        return {None, *hosts.broker.hmget(keys.copies(name), nodes)}

    before = {name: copies_of(name) for name in queries}
    for name, copies in before.items():
        hosts.wait(lambda name=name, copies=copies: copies_of(name) - copies, what=f"{name} is copied")


def end_machine(rig: Rig, *, with_disk: bool = True) -> None:
    """Agent and slots end at once, and what is on the disk is gone, or stays."""
    rig.kill()
    for folder in ("checkpoints", "folds", "nodes") if with_disk else ():
        shutil.rmtree(rig.data_dir / folder, ignore_errors=True)
