"""Histories by chance of tasks divided by key, on nodes that hold copies of each other's queries, and are lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduler.key_division import whole_groups
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.reuse.division import WantedBundle
from scheduler.reuse.handover import moved_in
from workers.engine.lost_nodes import all_holders_of, declare_lost, holders_of

from .keyed_flow import AT_REST, BRANCHES, SIDES, KeyedFlow
from .lost_machines import end_machine
from .rig import Hosts, Rig
from .test_moved_bundles import kill


class CopiedFlow(KeyedFlow):
    """Dataflows of one output each, which share their source. Queries and bundles are on any node, and have copies on
    all others. Each dataflow has a history of its own by chance, of plans; what is killed and lost is so for all."""

    rig: Hosts
    rate_per_s = 30.0

    def __init__(self, rig: Hosts, seed: int, outputs: Sequence[str]) -> None:
        chance = random.Random(seed)
        self.emptied: set[str] = set()  # nodes that have been lost with their disks
        self.threads = {side: chance.randint(1, 3) for side in SIDES}
        self.played: dict[str, list[str]] = {}  # by output: the steps of its history
        self.undivided: dict[str, dict[str, Fragment]] = {}  # by output: what its last plan changed, before that
        super().__init__(rig, seed, outputs)

    @property
    def copies(self) -> int:
        """How many machines may be lost at once."""
        return len(self.rig.nodes) - 1

    def histories(self, disasters: Sequence[str]) -> Iterator[dict[str, list[str]]]:
        """One of each output at a time, with the names of its steps; each goes on from what the one before left. In
        each something is planned, and one of these disasters comes, in any order; more may follow. After each all that
        has come is as it is undisturbed."""
        self.played = {output: ["spread"] for output in self.outputs}
        self.spread()
        for disaster in disasters:
            for step in self.chance.sample(["plans", disaster], 2):
                self.disturb(step)
            while self.chance.random() < 0.3:
                self.disturb()
            print(*(f"{output}: {', '.join(steps)}" for output, steps in self.played.items()), sep="; ", flush=True)
            self.finish()
            yield self.played
            self.played = {output: [] for output in self.outputs}

    def spread(self) -> None:
        """Every task has a bundle on each slot."""
        slots = [slot.name for slot in self.rig.slots]
        parts = whole_groups({place: 1 / len(slots) for place in range(len(slots))})
        self.divide([WantedBundle(slot, 1, parts[place]) for place, slot in enumerate(slots)], *self.keyed)
        for output in self.outputs:
            self.undivided[output] = self._tasks_by_key(output, self.before)

    def _tasks_by_key(self, output: str, fragments: Mapping[str, Fragment]) -> dict[str, Fragment]:
        """Of these fragments those of its tasks that are divided."""
        return {self.ids[task]: fragments[self.ids[task]] for task in BRANCHES.get(output, ())
                if self.ids[task] in fragments}

    def queries(self) -> dict[str, tuple[Fragment, RunningBundle]]:
        """Whatever is to work."""
        return {bundle.id: (fragment, bundle) for fragment in self.fragments.values() if not fragment.paused
                for bundle in fragment.queries if not bundle.leaving}

    def disturb(self, step: str = "") -> str:
        if step == "lose" and self.rests():
            self.turn("works")
            self.played["summed"].append("resume")
        step = super().disturb(step)
        if step != "plans":
            for steps in self.played.values():
                steps.append(step)
        return step

    def steps(self) -> dict[str, tuple[int, Callable[[], object]]]:
        steps: dict[str, tuple[int, Callable[[], object]]] = {
            "plans": (8, self.plan),
            "kill": (2, lambda: kill(self._node(), "0")),
            "kill the broker": (1, self.kill_broker),
            "lose power": (1, self.lose_power)}
        if not self.rests():
            steps["lose"] = (2, self.lose)
        return steps

    def _node(self) -> Rig:
        node = self.rig.nodes[self.chance.choice(sorted(self.rig.nodes))]
        self.rig.wait(lambda: node.slot_pid("0"), what="its slot has a process")
        return node

    def plan(self) -> None:
        """Something is planned for each dataflow. All that moves does so by one plan."""
        drawn = {output: self._drawn(output) for output in self.outputs}
        if not set(AT_REST).isdisjoint(drawn.values()):
            self.is_over()
        queries = self.queries()
        moves = {}
        for output in (output for output, step in drawn.items() if step == "move"):
            fragments = {self.ids[task] for stream in self._streams_of(output) for task in stream}
            name, bundle = self.chance.choice(sorted(
                (name, bundle) for name, (fragment, bundle) in queries.items() if fragment.id in fragments))
            moves[name] = self.chance.choice([slot.name for slot in self.rig.slots if slot.name != bundle.slot])
        if moves:
            self.go(moves)
        if turned := {"pause", "resume"}.intersection(drawn.values()):
            if moves:
                self.is_over()
            self.turn("works" if "resume" in turned else "rests")
        for output, step in drawn.items():
            self.played[output].append(step)
            self.before = self.undivided.pop(output, {})
            if step == "divide":
                tasks = BRANCHES[output]
                self.divide_by_chance([task for task in tasks if self.chance.random() < 0.7] or tasks)
            elif step == "take back" and self.before:
                self.divide_back()
            self.undivided[output] = self._tasks_by_key(output, self.before)

    def _drawn(self, output: str) -> str:
        """What is planned for it, by chance; nothing where it can only wait."""
        steps = {}
        if self.rests() and output == "summed":
            return "resume"
        if output in BRANCHES:
            steps["divide"] = 4
        if self.undivided.get(output):
            steps["take back"] = 3
        if not self.rests():
            steps["move"] = 2
            if output == "summed":
                steps["pause"] = 1
        return self.chance.choices(list(steps), list(steps.values()))[0] if steps else "wait"

    def go(self, slots: Mapping[str, str]) -> list[str]:
        """These queries go on in these slots, by one plan; the new names."""
        queries = self.queries()
        change = moved_in(self.estate(), slots, outputs=self.outputs, homes={name: queries[name][0] for name in slots})
        for name in change.before.keys() - change.after.keys():
            heir = next(after for after in change.after.values() if name in after.inherits)
            self.ids = {task: heir.id if query == name else query for task, query in self.ids.items()}
            del self.fragments[name]
        changed = change.before.keys() | change.after.keys()
        self.undivided = {output: before for output, before in self.undivided.items() if changed.isdisjoint(before)}
        self.fragments |= change.after
        self.publish()
        return [step.bundle or step.fragment for step in change.steps]

    def is_over(self) -> None:
        super().is_over()
        moved = {name for fragment in self.fragments.values() for name in fragment.inherits}
        self.rig.wait(lambda: not moved & {name for name, _ in self.rig.reports().queries()}, what="who moved is gone")

    def lose_power(self) -> None:
        """A node ends at once, and is started again."""
        node = self._node()
        pid = node.slot_pid("0")
        node.kill()
        self._start({node.node: pid})

    def kill_broker(self) -> None:
        self.rig.own_broker.kill()
        self.rig.own_broker.start()

    def are_copied(self, queries: Mapping[str, object]) -> None:
        """Wait until each has a copy that counts on all other nodes."""
        def lacking() -> list[str]:
            holders = all_holders_of(self.rig.broker, queries, living=set(self.rig.nodes))
            return [name for name in queries if len(holders.get(name, ())) < self.copies]

        self.rig.wait(lambda: not lacking(), what="all is copied")

    def lose(self) -> None:
        """One machine or two end at once, most with their disks; what was there goes on from copies on the others. They
        come back, before all works elsewhere or after."""
        lost = self.chance.sample(sorted(self.rig.nodes), self.chance.randint(1, self.copies))
        bundles = {name: bundle for name, (_, bundle) in self.queries().items() if node_of(bundle.slot) in lost}
        self.are_copied(bundles)
        self.grows(self.chance.randint(1, 20))
        emptied = [node for node in lost if self.chance.random() < 0.7]
        is_back_early = self.chance.random() < 0.5
        pids = {node: self.rig.nodes[node].slot_pid("0") for node in lost}
        for node in lost:
            end_machine(self.rig.nodes[node], with_disk=node in emptied)
        self.emptied |= set(emptied)
        holders = holders_of(self.rig.broker, bundles, living=self.rig.nodes.keys() - set(lost))
        assert holders.keys() == bundles.keys(), f"no copy of {bundles.keys() - holders.keys()} counts"
        declare_lost(self.rig.broker, dict.fromkeys(lost, 1))
        heirs = self.go({name: f"{holder}/0" for name, holder in holders.items()})
        if is_back_early:
            self._start(pids)
        self.rig.wait_running(*heirs)
        if self.chance.random() < 0.5:
            self.grows()
        if not is_back_early:
            self._start(pids)

    def _start(self, pids: Mapping[str, int | None]) -> None:
        """Start nodes whose slots had these processes."""
        for node in pids:
            self.rig.nodes[node].start()
        for node, pid in pids.items():
            rig = self.rig.nodes[node]
            self.rig.wait(lambda rig=rig, pid=pid: rig.slot_pid("0") not in (None, pid), what="the slot is back")
        self.rig.wait_serving()
