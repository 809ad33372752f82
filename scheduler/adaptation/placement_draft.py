"""A placement while it is made: cores given, taken and moved, with Ω worked out anew only where a change reaches.

A change at a task touches itself and its descendants; what is upstream stays. The equations are those of
``scheduler.simulation.problem``, and a test holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.problem import Conditions, sum_of_lesser


class PlacementDraft:
    """A placement that changes, and its throughput under some conditions.

    Parameters
    ----------
    placement : ElasticPlacement
        The first placement; is not changed.
    conditions : Conditions
        Under which throughput is worked out. A machine whose speed they do not say has that of its class.
    """

    def __init__(self, dataflow: ElasticDataflow, placement: ElasticPlacement, conditions: Conditions) -> None:
        self.dataflow, self.conditions = dataflow, conditions
        self._children: dict[str, list[str]] = {task: [] for task in dataflow.tasks}
        for source, target in dataflow.streams:
            self._children[source].append(target)
        self._place = {task: at for at, task in enumerate(dataflow.upstream_first)}
        self._named = 0
        self.restore(placement)

    def restore(self, placement: ElasticPlacement) -> None:
        """Go on from another placement, under the same conditions."""
        self.active = dict(placement.active)
        self.vms = dict(placement.vms)
        self.cores: dict[str, dict[str, int]] = {
            task: {vm: count for vm, count in placement.cores.get(task, {}).items() if count}
            for task in self.dataflow.tasks}
        self.free = {name: vm.kind.cores for name, vm in self.vms.items()}
        self.on: dict[str, dict[str, int]] = {name: {} for name in self.vms}
        for task, on in self.cores.items():
            for vm, count in on.items():
                self.free[vm] -= count
                self.on[vm][task] = count
        self.instances = {task: sum(on.values()) for task, on in self.cores.items()}
        self._power = {task: sum(count * self.speed(vm) for vm, count in on.items()) for task, on in self.cores.items()}
        self._least_bandwidth = min(map(self._bandwidth, self.vms), default=math.inf)
        self.events: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self._out: dict[str, float] = {}
        self._most: dict[str, float] = {}
        self._unhindered: dict[str, float] = {}
        for task in self.dataflow.upstream_first:
            self._work_out(task)

    def alternate(self, task: str) -> Alternate:
        """The active alternate of a task."""
        return self.dataflow.tasks[task][self.active[task]]

    def speed(self, vm: str) -> float:
        """The speed of each core of a machine."""
        return self.conditions.speeds.get(vm, self.vms[vm].kind.speed)

    def power(self, task: str) -> float:
        """φ: how many standard cores those of a task add up to."""
        return self._power[task]

    @property
    def throughput(self) -> float:
        """Ω: what part reaches the outputs of all that could, as `SimulatedStep.reached`."""
        outputs = self.dataflow.outputs
        return sum(_part(self._out[task], self._most[task]) for task in outputs) / len(outputs)

    def throughput_of(self, task: str) -> float:
        """Ω_i: of what waits, comes, or would come if the network let it, the part that a task does."""
        return _part(self.done[task], self._unhindered[task])

    def ratio_of(self, task: str) -> float:
        """The possible share of a task's load: above 1 where it has more cores than it needs."""
        able = self._power[task] * self.conditions.seconds / self.alternate(task).event_s
        return able / self.events[task] if self.events[task] > 0 else math.inf

    def needed(self, task: str, alternate: Alternate) -> float:
        """The standard cores that an alternate of a task needs for its whole load."""
        return self.events[task] * alternate.event_s / self.conditions.seconds

    def switch(self, task: str, alternate: str) -> None:
        """Make an alternate of a task the active one."""
        self.active[task] = alternate
        self._ripple(task)

    def rent(self, kind: VmClass, *, at_s: float = 0.0) -> str:
        """A machine of a class more; its name."""
        while (name := f"{kind.name}-{self._named}-{at_s:.0f}") in self.vms:
            self._named += 1
        self._named += 1
        self.vms[name] = RentedVm(kind, at_s)
        self.free[name], self.on[name] = kind.cores, {}
        self._least_bandwidth = min(self._least_bandwidth, self._bandwidth(name))
        return name

    def release(self, vm: str) -> None:
        """Give back a machine. `ValueError` where a task has cores of it."""
        if self.on[vm]:
            raise ValueError(f"{vm} has cores of {', '.join(self.on[vm])}")
        del self.vms[vm], self.free[vm], self.on[vm]

    def give(self, task: str, vm: str, count: int = 1) -> None:
        """Cores of a machine for a task; taken away where ``count`` is below 0. `ValueError` where there are not so
        many."""
        after = self.cores[task].get(vm, 0) + count
        if after < 0 or self.free[vm] < count:
            raise ValueError(f"{vm} has not {count} cores for {task}")
        self.free[vm] -= count
        self.instances[task] += count
        if after:
            self.cores[task][vm] = self.on[vm][task] = after
            self._power[task] += count * self.speed(vm)
        else:
            self.cores[task].pop(vm, None)
            self.on[vm].pop(task, None)
            self._power[task] = sum(cores * self.speed(name) for name, cores in self.cores[task].items())
        self._ripple(task, sites_changed=after in (0, count))

    def finished(self) -> ElasticPlacement:
        """The placement as it is now."""
        return ElasticPlacement(
            dict(self.active), dict(self.vms), {task: dict(on) for task, on in self.cores.items()})

    def _ripple(self, task: str, *, sites_changed: bool = False) -> None:
        """Work out a task anew, and those downstream as far as something changes."""
        ahead = {task}
        if sites_changed:  # the network between it and who reads it is another one
            ahead.update(self._children[task])
        while ahead:
            current = min(ahead, key=self._place.__getitem__)
            ahead.remove(current)
            if self._work_out(current):
                ahead.update(self._children[current])

    def _work_out(self, task: str) -> bool:
        """A task by (4.4) to (4.7); whether something that reaches others is another than before."""
        conditions, parents, alternate = self.conditions, self.dataflow.parents[task], self.alternate(task)
        seconds, source_per_s = conditions.seconds, conditions.rates_per_s.get(task, 0.0)
        before = conditions.waiting.get(task, 0.0)
        coming, unhindered, most = source_per_s, source_per_s, source_per_s
        for parent in parents:
            unhindered += self._out[parent]
            coming += self._flow(parent, task)
            most += self._most[parent]
        events = before + coming * seconds
        done = min(events, self._power[task] * seconds / alternate.event_s)
        out = done * alternate.selectivity / seconds
        most = (before + most * seconds) * alternate.selectivity / seconds
        self.events[task], self.done[task], self._unhindered[task] = events, done, before + unhindered * seconds
        changed = self._out.get(task) != out or self._most.get(task) != most
        self._out[task], self._most[task] = out, most
        return changed

    def _flow(self, source: str, target: str) -> float:
        """Events a second from a task to one that reads it (4.5)."""
        out, written, read = self._out[source], self.cores[source], self.cores[target]
        size = self.conditions.message_bytes
        if not written or not read:
            return 0.0
        # Between each two machines at least the least bandwidth of all: mostly that is enough, and is quickly known.
        if self._least_bandwidth * len(written) * len(read) >= out * size:
            return out
        if not written.keys().isdisjoint(read):
            return out
        return min(out, sum_of_lesser(map(self._bandwidth, written), map(self._bandwidth, read)) / size)

    def _bandwidth(self, vm: str) -> float:
        return self.conditions.bandwidths.get(vm, self.vms[vm].kind.bytes_per_s)


def draft_of(
    dataflow: ElasticDataflow, active: Mapping[str, str], conditions: Conditions
) -> PlacementDraft:
    """A draft without cores and machines."""
    return PlacementDraft(dataflow, ElasticPlacement(active), conditions)


def _part(done: float, of: float) -> float:
    return done / of if of > 0 else 1.0
