"""Schemes of moving queries, each as what it does to a running node when a new allocation plan comes (paper [4], 5.2).

A scheme says with which cycles the node runs, how the topology is afterwards (`Scheme.after`), and what is done to its
processes (`Scheme.touched`). Everything else is the engine's: whatever the scheme, each event comes out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from .topology import Topology

STOCK = ("workers.engine.agents.node_agent",)
BY_CYCLES = ("tests.benches.migration.agent",)  # nobody is told of a change: all look by their cycles
LAZY_S = 2.0  # D_K: for so long what moves stays where it was, once its slot knows of the plan


class Scheme(Protocol):
    """One way to carry out an allocation plan."""

    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str:
        """In a line, what it does."""
        ...

    @property
    def agent(self) -> tuple[str, ...]:
        """The module of the node agent, and its further arguments."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of the agent and its slots."""
        ...

    @property
    def pushes(self) -> bool:
        """Whether the agent is told of a plan, or finds it by its cycle."""
        ...

    def after(self, before: Topology, moves: Mapping[str, str]) -> Topology:
        """The topology once the bundles have moved to these slots."""
        ...

    def touched(self, before: Topology, moves: Mapping[str, str]) -> frozenset[str]:
        """The slots whose processes are ended, and started again by the new plan."""
        ...


def cycles(supervisor_s: float, worker_s: float) -> Mapping[str, str]:
    """T_S and T_W as settings."""
    return MappingProxyType(
        {"WEIR_SUPERVISOR_CYCLE_S": f"{supervisor_s:g}", "WEIR_WORKER_CYCLE_S": f"{worker_s:g}"})


@dataclass(frozen=True, slots=True)
class Restart:
    """Processes end, all of them or those that the plan changes, and start again by it."""

    name: str
    doc: str
    everywhere: bool
    agent: tuple[str, ...] = STOCK
    settings: Mapping[str, str] = field(default_factory=dict)
    pushes: bool = True

    def after(self, before: Topology, moves: Mapping[str, str]) -> Topology:
        return before.restarted(moves)

    def touched(self, before: Topology, moves: Mapping[str, str]) -> frozenset[str]:
        if self.everywhere:
            return frozenset(before.slot_names)
        return frozenset(moves.values()) | frozenset(before.placement[bundle] for bundle in moves)


@dataclass(frozen=True, slots=True)
class StopAndStart:
    """Each query that moves is stopped by the one slot and started by the other, when each comes to look."""

    name: str
    doc: str
    settings: Mapping[str, str]
    agent: tuple[str, ...] = BY_CYCLES
    pushes: bool = False

    def after(self, before: Topology, moves: Mapping[str, str]) -> Topology:
        return before.restarted(moves)

    def touched(self, before: Topology, moves: Mapping[str, str]) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True, slots=True)
class Handover:
    """Each query that moves has an heir that stands by in the other slot before it ends."""

    name: str
    doc: str
    agent: tuple[str, ...] = STOCK
    settings: Mapping[str, str] = field(default_factory=dict)
    pushes: bool = True

    def after(self, before: Topology, moves: Mapping[str, str]) -> Topology:
        return before.handed_over(moves)

    def touched(self, before: Topology, moves: Mapping[str, str]) -> frozenset[str]:
        return frozenset()


_ALL: tuple[Scheme, ...] = (
    Restart("rebalance", "stop every slot, start every slot (Storm)", everywhere=True),
    Restart("process", "restart every slot that the plan changes (T-Storm)", everywhere=False),
    StopAndStart("nonstop", "stop the query, start it in the other slot (N-Storm, T_S 10 s, T_W 3 s)",
                 settings=cycles(10, 3)),
    StopAndStart("nonstop+", f"the same, stopped lazily (N-Storm+, D_K {LAZY_S:g} s, T_S 3 s, T_W 1 s)",
                 settings=cycles(3, 1), agent=(*BY_CYCLES, "--lazy")),
    Handover("handover", "an heir stands by and takes over (Weir)"),
)
SCHEMES: Mapping[str, Scheme] = MappingProxyType({scheme.name: scheme for scheme in _ALL})
