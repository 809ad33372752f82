"""A divided dataflow whose events say whether all of them arrived, and each once."""

from __future__ import annotations

from itertools import groupby

from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from workers.engine.channels import keys
from workers.engine.channels.channel_info import ChannelInfo

from .rig import NODE, Watched, estate_of

BY = 1_000_000
RATE_PER_S = 200.0


class Flow:
    """A source, a task in Python and another one, both divided, and an output; ``ends`` are the slots of both ends."""

    def __init__(
        self, rig: Watched, name: str, python: list[RunningBundle], sql: list[RunningBundle], *,
        ends: tuple[str, str] = (f"{NODE}/0", f"{NODE}/1"),
    ) -> None:
        self.rig, self.name, self.ends = rig, name, ends
        self.tasks = [
            RunningTask(f"{name}-count", "numbers", {"rate_per_s": RATE_PER_S}, ()),
            RunningTask(f"{name}-python", "in_python", {"tag": name}, (f"{name}-count",)),
            RunningTask(f"{name}-sql", "shift", {"by": BY}, (f"{name}-python",)),
            RunningTask(f"{name}-out", "kept", {"keep_events": 100_000}, (f"{name}-sql",)),
        ]
        self.out = f"{name}1-3.0"
        self.fragments = [
            self._fragment(0, ()), self._fragment(1, tuple(python)), self._fragment(2, tuple(sql)),
            self._fragment(3, ())]

    def _fragment(self, number: int, bundles: tuple[RunningBundle, ...]) -> Fragment:
        task = self.tasks[number].id
        outlets = {task: (f"{self.name}1-{number + 1}",)} if number < 3 else {}
        where = bundles[0].slot if bundles else self.ends[number > 0]
        return Fragment(f"{self.name}1-{number}", (task,), where, 1, outlets, bundles=bundles)

    def publish(self) -> None:
        self.rig.publish(estate_of(self.fragments, self.tasks, slots=self.rig.slots))

    def divide(self, number: int, *bundles: RunningBundle) -> None:
        self.fragments[number] = self._fragment(number, bundles)

    def numbers(self) -> list[int]:
        events = self.rig.events(self.out)
        assert all(event["n"] == event["_seq"] + BY for event in events)
        return [event["_seq"] for event in events]

    def grows(self, by: int = 100) -> None:
        count = len(self.numbers())
        self.rig.wait(lambda: len(self.numbers()) > count + by, what=f"more of {self.out}")

    def left(self) -> frozenset[str]:
        return self.rig.reports().left

    def check(self) -> None:
        """Every number so far arrives, and none twice; else it is said which does not, and how far all have read."""
        expected = set(range(max(self.numbers())))
        try:
            self.rig.wait(lambda: set(self.numbers()) >= expected, what="every number")
        except AssertionError as late:
            missing = sorted(expected.difference(self.numbers()))
            raise AssertionError(f"{_stretches(missing)} of {len(expected)} are missing: {self._channels()}") from late
        numbers = self.numbers()
        assert len(numbers) == len(set(numbers)), "an event came twice"

    def _channels(self) -> list[ChannelInfo]:
        prefix, suffix = keys.channel(""), keys.meta("").removeprefix(keys.channel(""))
        hashes = self.rig.broker.scan_iter(f"{prefix}{self.name}*{suffix}")
        names = sorted(key.decode().removeprefix(prefix).removesuffix(suffix) for key in hashes)
        return [info for name in names if (info := self.rig.channels.info(name)) is not None]


def _stretches(numbers: list[int]) -> list[str]:
    """Numbers, those that follow one another as one."""
    stretches = groupby(enumerate(numbers), key=lambda item: item[1] - item[0])
    runs = [[number for _, number in run] for _, run in stretches]
    return [f"{run[0]} to {run[-1]}" for run in runs]


def bundle(name: str, slot: int | str, threads: int = 1, weight: float = 1.0) -> RunningBundle:
    return RunningBundle(name, f"{NODE}/{slot}" if isinstance(slot, int) else slot, threads, weight)
