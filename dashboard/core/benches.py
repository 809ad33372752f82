"""The measurements that `./weir bench` knows, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bench:
    """A measurement: ``run`` is ``"package.module:function"``, which takes the arguments and returns an exit code."""

    name: str
    doc: str
    run: str


BENCHES: dict[str, Bench] = {}
