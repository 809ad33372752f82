"""Passing: a live source, or a sink that a connector writes, goes from one node's connector host to another's. Pure,
but for what a node keeps of it on disk.

It follows its fragment. The node that has it keeps it until the heir has begun on the other node, and passes it on.
Where that does not happen in time, the other takes it by force (``connector_leases.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.contracts.desired import DesiredState, WantedFragment, made_in
from scheduler.model.task_types import TaskTypes
from workers.engine.agents.node_files.atomic_files import names_in, write_atomically
from workers.engine.agents.node_files.node_store import LET_GO, NodeStore
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.transport.state_transport import still_leaving


class Phase(StrEnum):
    """The work of a node on a source or sink that passes between nodes."""

    OWN = "own"  # it works here
    COME = "come"  # those that it works for here have not begun: it is taken if it is free
    KEEP = "keep"  # it works here until those elsewhere have begun
    GIVE = "give"  # it is to be let go


@dataclass(frozen=True, slots=True)
class Passed:
    """Fragments by where they run: local ones, those arriving from another node, and successors elsewhere.

    ``goes_to`` is the node of the newest successor.
    """

    wanted: frozenset[str] = frozenset()
    arriving: frozenset[str] = frozenset()
    heirs: frozenset[str] = frozenset()
    goes_to: str = ""

    def seen(self, desired: DesiredState, fragment: WantedFragment) -> Passed:
        """With a fragment of this node."""
        if fragment.id not in desired.wanted:
            return self
        arriving = {fragment.id} if desired.is_from_elsewhere(fragment) else set()
        return replace(self, wanted=self.wanted | {fragment.id}, arriving=self.arriving | arriving)

    def followed_by(self, heir: str, node: str) -> Passed:
        """With a fragment of another node."""
        is_newest = all(made_in(heir) >= made_in(earlier_heir) for earlier_heir in self.heirs)
        return replace(self, heirs=self.heirs | {heir}, goes_to=node if is_newest else self.goes_to)

    def is_over(self, let_go: Collection[str]) -> bool:
        """True where it is another node's altogether."""
        return not self.wanted and bool(self.heirs) and self.heirs <= set(let_go)

    def phase(self, *, begun: Collection[str], taken: Collection[str]) -> Phase:
        """The work that is to be done."""
        if not self.wanted and self.heirs:
            return Phase.GIVE if self.heirs <= set(taken) else Phase.KEEP
        is_coming = bool(self.wanted) and self.wanted <= self.arriving and self.wanted.isdisjoint(begun)
        return Phase.COME if is_coming else Phase.OWN


class PassingRecords:
    """A node's records of fragments whose sources and sinks come from other nodes, or go to them."""

    def __init__(self, store: NodeStore) -> None:
        self._records = SlotStore(store.data_dir, store.slot_dir("0"))
        self._folder = store.folder / LET_GO

    def phase_of(self, passed: Passed) -> Phase:
        """The work that is to be done on a source or sink."""
        begun = {name for name in passed.arriving if self._records.has(name, "begun")}
        return passed.phase(begun=begun, taken=self._records.taken() if passed.heirs else frozenset())

    def let_go(self) -> frozenset[str]:
        """The fragments of other nodes for which this node has let go what it held."""
        return names_in(self._folder)

    def still_leaving(self, desired: DesiredState, task_types: TaskTypes) -> list[str]:
        """Fragments with a successor on another node that this node still works for, clears away or lets go."""
        let_go = self.let_go() if desired.remote_heirs else frozenset()
        unread = {
            heir.inherits[-1] for heir in desired.heirs_elsewhere.values()
            if heir.inherits[-1] in desired.outgoing and heir.id not in let_go and _has_connector(heir, task_types)}
        return sorted({*still_leaving(desired, self._records), *unread})

    def record_let_go(self, heirs: Collection[str]) -> None:
        """From now on these have what this node held."""
        for heir in heirs:
            write_atomically(self._folder / heir, "")


def _has_connector(fragment: WantedFragment, task_types: TaskTypes) -> bool:
    """Whether a connector reads what a fragment begins with, or writes what it ends with."""
    ends = [task_types[task.type] for task in (fragment.tasks[0], fragment.tasks[-1]) if task.type in task_types]
    return any(end.connector is not None or end.writer is not None for end in ends)
