"""The word count topology: lanes of two bundles each, what runs where, and the same after some of them moved. Pure.

The first bundle of a lane is source and splitter, with a computation between them in the CPU-bound variant; the second
counts words by window and keeps the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot

SPLIT, COUNT = "split", "count"  # the two bundles of a lane, by their tasks
KEPT_EVENTS = 10_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """What a lane does: a sentence each ``gap_ms``, counted in windows of ``window_ms``, after ``iterations`` of a
    product for each sentence."""

    gap_ms: int = 250
    window_ms: int = 1_000
    iterations: int = 0

    def tasks(self, lane: int) -> tuple[tuple[RunningTask, ...], tuple[RunningTask, ...]]:
        """The tasks of a lane's two bundles, upstream first."""
        first = [("text", "replay", {
            "path": recording(lane), "format": "parquet", "repeat": True, "rate_per_s": 1000 / self.gap_ms})]
        if self.iterations:
            first.append(("pi", "pi_viete", {"iterations": self.iterations}))
        first.append(("split", "sql", {"query": "SELECT explode(split(sentence, ' ')) AS word FROM input"}))
        second = [
            ("count", "window", {"size": self.window_ms / 1000, "by": ["word"], "aggregates": ["times=count(*)"]}),
            ("out", "output", {"name": f"counts-{lane}", "keep_events": KEPT_EVENTS})]
        chain = [
            RunningTask(f"{name}{lane}", kind, config, (f"{before}{lane}",) if before else ())
            for (name, kind, config), before in zip(
                [*first, *second], [None, *(name for name, _, _ in [*first, *second])], strict=False)]
        return tuple(chain[:len(first)]), tuple(chain[len(first):])


def recording(lane: int) -> str:
    """The file with a lane's sentences, in the folder of recordings."""
    return f"lane-{lane}.parquet"


@dataclass(frozen=True, slots=True)
class Topology:
    """What runs where: the fragment of each bundle, which is called by its task and its lane (``split3``)."""

    node: str
    slots: int
    lanes: int
    tasks: Mapping[str, RunningTask]
    fragments: Mapping[str, Fragment]
    generation: int = 1

    @classmethod
    def dealt_out(cls, workload: Workload, *, node: str, slots: int, lanes: int) -> Topology:
        """All bundles, dealt out to the slots in turn.

        Parameters
        ----------
        workload : Workload
            What each lane does.
        node : str
            The node's name.
        slots, lanes : int
            How many of each.
        """
        tasks: dict[str, RunningTask] = {}
        fragments: dict[str, Fragment] = {}
        for lane in range(lanes):
            first, second = workload.tasks(lane)
            tasks |= {task.id: task for task in (*first, *second)}
            split, count = f"f1-{2 * lane}", f"f1-{2 * lane + 1}"
            for name, chain, names, readers in (
                    (SPLIT, first, split, {first[-1].id: (count,)}), (COUNT, second, count, {})):
                fragments[f"{name}{lane}"] = Fragment(
                    names, tuple(task.id for task in chain), f"{node}/{len(fragments) % slots}", len(chain), readers)
        return cls(node, slots, lanes, tasks, fragments)

    @property
    def placement(self) -> Mapping[str, str]:
        """The slot of each bundle."""
        return MappingProxyType({bundle: fragment.slot for bundle, fragment in self.fragments.items()})

    @property
    def slot_names(self) -> tuple[str, ...]:
        return tuple(f"{self.node}/{index}" for index in range(self.slots))

    @property
    def estate(self) -> Estate:
        """The same as what an agent is told to run."""
        return Estate(
            self.generation, self.tasks, fragments={fragment.id: fragment for fragment in self.fragments.values()},
            slots=tuple(Slot(self.node, index) for index in range(self.slots)))

    @staticmethod
    def lane_of(bundle: str) -> int:
        """The lane of a bundle, by its name."""
        return int(bundle.removeprefix(SPLIT).removeprefix(COUNT))

    def output(self, lane: int) -> str:
        """The channel of a lane's output, whoever writes it."""
        return self.fragments[f"{COUNT}{lane}"].channel_of(f"out{lane}")

    def restarted(self, moves: Mapping[str, str]) -> Topology:
        """The same fragments, those that move with their checkpoints in other slots."""
        fragments = {
            bundle: replace(fragment, slot=moves.get(bundle, fragment.slot))
            for bundle, fragment in self.fragments.items()}
        return replace(self, fragments=fragments, generation=self.generation + 1)

    def handed_over(self, moves: Mapping[str, str]) -> Topology:
        """Those that move have heirs in other slots, which go on writing their channels."""
        generation = self.generation + 1
        names = {bundle: f"f{generation}-{number}" for number, bundle in enumerate(sorted(moves))}
        fragments: dict[str, Fragment] = {}
        for lane in range(self.lanes):
            split, count = f"{SPLIT}{lane}", f"{COUNT}{lane}"
            reader = names.get(count, self.fragments[count].id)
            for bundle, published, readers in (
                    (split, f"split{lane}", {f"split{lane}": (reader,)}), (count, f"out{lane}", {})):
                before = self.fragments[bundle]
                heir = {
                    "id": names[bundle], "slot": moves[bundle], "inherits": (before.id,),
                    "channels": {published: before.channel_of(published)}} if bundle in moves else {}
                fragments[bundle] = replace(before, outlets=readers, **heir)
        return replace(self, fragments=fragments, generation=generation)
