"""R-Storm Mapping (RSM): each thread on the nearest node, by free memory, free CPU and network (paper [2], Alg. 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from scheduler.model.allocated import Allocation
from scheduler.model.checks import FiniteFigures
from scheduler.model.placement import Placement
from scheduler.model.resources import TOLERANCE, Supply

from .candidates import Candidates
from .requested_slots import OpenSlots

FEW = 7  # slots of a node that are kept in lists
SAME_RACK, OTHER_RACK = 0.5, 1.0  # network distance from the reference node, which is at 0


@dataclass(frozen=True, slots=True)
class Weights(FiniteFigures):
    """The weight of a unit of each in the distance."""

    memory: float = 1.0
    cpu: float = 1.0
    network: float = 1.0


BALANCED = Weights()


def map_rsm(allocation: Allocation, *, supply: Supply, weights: Weights = BALANCED) -> Placement:
    """R-Storm Mapping (RSM): one thread of each task in turn, on the nearest node that has CPU and a slot with memory.

    A thread takes its share of what its task was allocated: of LSA what one thread was measured to take, of MBA the
    mean over its bundles. The published text says the former for both, with which MBA's 470 threads would fill 112
    slots with memory where 20 are reported; and its 22.98% for an XML thread is such a share.

    Parameters
    ----------
    supply : Supply
        The source of slots; nodes of the same ``rack`` are nearer to each other.

    Returns
    -------
    Placement
        Every thread placed once, no slot over its memory, no node over the CPU of its slots: R-Storm lets threads use
        all cores of their node, so a single slot may be over. One more slot is requested where R-Storm would fail.

    References
    ----------
    .. [1] Peng et al., "R-Storm: Resource-Aware Scheduling in Storm", 2015.
    .. [2] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 5.
    """
    state = OpenSlots(allocation, supply)
    nodes = _Nodes(state, {node.name: node.rack for node in supply.free}, weights)
    remaining_threads = {name: task.threads for name, task in allocation.tasks.items()}
    needs = {name: (task.cpu / task.threads, task.memory / task.threads) for name, task in allocation.tasks.items()}
    waiting = list(remaining_threads)
    while waiting:
        for name in waiting:
            state.place(name, nodes.take(*needs[name]))
            remaining_threads[name] -= 1
        waiting = [name for name in waiting if remaining_threads[name]]
    return state.placement("RSM", lends_cpu=True)


def nodes_hold(placement: Placement, allocation: Allocation) -> bool:
    """True if no node is over the CPU of its slots, by the share that a thread takes; empty slots lend theirs."""
    slots_on = Counter(slot.node for slot in (*placement.slots, *placement.empty))
    spent = dict.fromkeys(slots_on, 0.0)
    for position, taken in placement.taken.items():
        spent[placement.slots[position].node] += taken.cpu
    for name, counts in placement.counts.items():
        share = allocation.tasks[name].cpu / allocation.tasks[name].threads
        for position, threads in counts.items():
            spent[placement.slots[position].node] += threads * share
    return all(cpu <= slots_on[node] + TOLERANCE for node, cpu in spent.items())


class _NodeSlots:
    """The slots of a node, by number, with what each has free.

    Lists for few slots, as most nodes have them: a loop is quicker than NumPy there. The figures are the same, because
    NumPy also adds fewer than eight numbers in their order.
    """

    def __init__(self) -> None:
        self._cpu: list[float] = []
        self._memory: list[float] = []
        self._candidates: Candidates | None = None

    def add(self, cpu: float, memory: float) -> None:
        """One slot more."""
        if self._candidates is not None:
            self._candidates.add(cpu, memory, memory)
            return
        self._cpu.append(cpu)
        self._memory.append(memory)
        if len(self._cpu) > FEW:
            self._candidates = Candidates()
            for free_cpu, free_memory in zip(self._cpu, self._memory, strict=True):
                self._candidates.add(free_cpu, free_memory, free_memory)

    def take(self, cpu: float, memory: float, *, from_newest: bool) -> int:
        """Take so much of the first slot with memory for it, or of the newest one if that has; its number."""
        many, least = self._candidates, memory - TOLERANCE
        if many is not None:
            newest = many.count - 1
            number = newest if from_newest and many.holds(newest, -inf, memory) else many.first_with_room(
                memory, start=0)
            many.take(number, cpu, memory)
            return number
        free = self._memory
        if from_newest and free[-1] >= least:
            number = len(free) - 1
        else:
            number = next(number for number, room in enumerate(free) if room >= least)
        self._cpu[number] -= cpu
        free[number] -= memory
        return number

    def node_sums(self) -> tuple[float, float, float]:
        """Free CPU and memory of all slots, and the memory of the emptiest."""
        if self._candidates is not None:
            return self._candidates.node_sums()
        cpu = memory = 0.0
        # Not `sum`, which later Pythons make more exact than NumPy's.
        for free_cpu, free_memory in zip(self._cpu, self._memory, strict=True):
            cpu += free_cpu
            memory += free_memory
        return cpu, memory, max(self._memory)


class _Nodes:
    """Nodes with their slots, as candidates by rack; ``reference`` is where the last thread went."""

    def __init__(self, state: OpenSlots, racks: Mapping[str, str], weights: Weights) -> None:
        self._state, self._rack_of, self._weights = state, racks, weights
        self._racks: dict[str, Candidates] = {}
        self._names: dict[str, list[str]] = {}  # by rack, in the order of its candidates
        self._number: dict[str, tuple[str, int]] = {}  # a node's rack and number there
        self._slots: dict[str, _NodeSlots] = {}
        self._positions: dict[str, list[int]] = {}  # of a node's slots
        for position in range(len(state.slots)):
            self._open(position)
        self._reference = state.slots[0].node

    def take(self, cpu: float, memory: float) -> int:
        """Place a thread: the position of its slot."""
        begun = False
        while not (name := self._nearest(cpu, memory)):
            self._open(self._state.another())
            begun = True
        slots = self._slots[name]
        # What is opened for a thread is where it goes. A slot may lend CPU to others of its node.
        number = slots.take(cpu, memory, from_newest=begun)
        self._refresh(name)
        self._reference = name
        return self._positions[name][number]

    def _nearest(self, cpu: float, memory: float) -> str:
        weights = self._weights

        def distance(free_cpu, free_memory):  # of one node, or of arrays of them
            return weights.memory * (free_memory - memory) ** 2 + weights.cpu * (free_cpu - cpu) ** 2

        best, nearest = inf, ""
        own_rack, number = self._number[self._reference]
        if self._racks[own_rack].holds(number, cpu, memory):
            free_cpu, free_memory, _ = self._racks[own_rack].free(number)
            best, nearest = distance(free_cpu, free_memory), self._reference
        for rack, nodes in self._racks.items():
            network = weights.network * (SAME_RACK if rack == own_rack else OTHER_RACK)
            least, number = nodes.cheapest(cpu, memory, distance, below=best - network)
            if number >= 0:
                best, nearest = least + network, self._names[rack][number]
        return nearest

    def _open(self, position: int) -> None:
        name = self._state.slots[position].node
        rack = self._rack_of.get(name, "")
        if name not in self._number:
            nodes = self._racks.setdefault(rack, Candidates())
            self._names.setdefault(rack, []).append(name)
            self._number[name] = (rack, nodes.add(1.0, 1.0, 1.0))
            self._slots[name], self._positions[name] = _NodeSlots(), []
        cpu, memory = self._state.free(position)
        self._slots[name].add(cpu, memory)
        self._positions[name].append(position)
        self._refresh(name)

    def _refresh(self, name: str) -> None:
        rack, number = self._number[name]
        self._racks[rack].put(number, *self._slots[name].node_sums())
