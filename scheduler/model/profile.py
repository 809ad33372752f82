"""Profiles: what a task type was measured to sustain and take on one slot, by number of threads (paper [2], 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from typing import Literal

from .alternates import done_at_first
from .canonical import canonical_config, canonical_json
from .checks import is_between, is_count
from .dataflow import Task
from .errors import InvalidProfile, MissingProfile, RateNotHeld
from .resources import TOLERANCE
from .task_types import PATH, TaskTypes

Basis = Literal["measured", "interpolated", "beyond"]
BUSY = 0.5  # of the peak rate: above it a query may not be done when its next trigger comes
# Of its triggers, the query that keeps a slot from more still runs so many batches: they are two triggers apart.
# Latency grows with that, but nothing piles up.
LEAST_OFTEN = 0.5
MOST_THREADS = 100_000  # on one slot: far beyond what a driver runs


@dataclass(frozen=True, slots=True)
class Point:
    """The sustained rate and the load of a number of threads of a task on one slot, above base load.

    CPU and memory are shares of a slot (1.0 is all of it). ``idle_cpu`` and ``idle_memory`` are what they take at any
    rate, however few events there are: a query that runs a batch at every trigger and keeps its Python workers.
    ``event_cpu`` is what the events take at the peak rate, besides; where nobody knows, all that is above
    ``idle_cpu``. The two may add up to more than ``cpu``: near its peak a query that waits for a service, or for its
    core, runs batches less often than its trigger would have it (``often``).
    """

    threads: int
    rate_per_s: float
    cpu: float
    memory: float
    idle_cpu: float = 0.0
    idle_memory: float = 0.0
    event_cpu: float | None = None

    @property
    def of_events(self) -> float:
        """CPU that the events take at the peak rate."""
        return max(0.0, self.cpu - self.idle_cpu) if self.event_cpu is None else self.event_cpu

    @property
    def often(self) -> float:
        """The part of the triggers at the peak rate that runs a batch; 1 where nothing says that it is less."""
        part = max(0.0, self.cpu - self.of_events) / self.idle_cpu if self.idle_cpu else 1.0
        return part if part < 1 - TOLERANCE else 1.0  # 30% less 20% is not quite 10%, and nobody waits for the rest

    @property
    def waits(self) -> float:
        """The part of its time that a query at its peak rate waits: for a service's answers, and not for its core.

        One that runs batches less often than its trigger would have it is never done in time: what is not CPU then is
        waiting. Of any other nobody knows, and it is taken not to wait.
        """
        return max(0.0, 1.0 - self.cpu) if self.event_cpu is not None and self.often < 1 else 0.0

    @property
    def batches_cpu(self) -> float:
        """CPU of its batches at the peak rate."""
        return self.often * self.idle_cpu

    @property
    def fewest_batches_cpu(self) -> float:
        """CPU share of batches when this query is its slot's bottleneck and batches as rarely as allowed."""
        return min(LEAST_OFTEN, self.often) * self.idle_cpu

    def at_speed(self, ratio: float) -> Point:
        """The same on a core that runs so many times as fast.

        At the peak all time is CPU or waiting: CPU takes ``ratio`` times less of it, waiting as long as before.
        """
        time = 1.0 - self.cpu + self.cpu / ratio
        cpu = self.cpu / ratio / time
        of_events = self.event_cpu if self.event_cpu is None else self.event_cpu / ratio / time
        most = 1.0 if of_events is not None else cpu
        return replace(
            self, rate_per_s=self.rate_per_s / time, cpu=cpu, idle_cpu=min(most, self.idle_cpu / ratio),
            event_cpu=of_events)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Impossible values: the field, and what is wrong with it, for each."""
        if not is_count(self.threads, most=MOST_THREADS):
            yield "threads", f"{self.threads} threads; it is a whole number from 1 to {MOST_THREADS:,}"
        shares = self.cpu, self.memory, self.idle_cpu, self.idle_memory, self.event_cpu or 0.0
        # Most are floats, and asking whether something is a kind of `Real` takes ten times as long.
        if not all(type(number) is float or isinstance(number, Real) for number in (self.rate_per_s, *shares)):
            yield "rate_per_s", "a rate or a share that is no number"
            return
        if not (self.rate_per_s > 0 and is_between(self.rate_per_s, 0)):
            yield "rate_per_s", f"a peak rate of {self.rate_per_s:g} events/s; it is a number above 0"
        for field, name in (("cpu", "CPU"), ("memory", "memory")):
            share, idle = getattr(self, field), getattr(self, f"idle_{field}")
            if not 0 <= share <= 1 + TOLERANCE:
                yield field, f"{100 * share:.4g}% of a slot's {name}; it is between 0 and 100%"
            elif field == "cpu" and self.event_cpu is not None:
                if not 0 <= idle <= 1 + TOLERANCE:
                    yield "idle_cpu", f"{100 * idle:.4g}% of a slot's CPU at any rate; it is between 0 and 100%"
            elif not 0 <= idle <= share + TOLERANCE:
                more = f"({100 * idle:.4g}%) than at the peak rate ({100 * share:.4g}%)"
                yield f"idle_{field}", f"more {name} without events {more}"
        if self.event_cpu is not None and not 0 <= self.event_cpu <= self.cpu + TOLERANCE:
            yield "event_cpu", (f"{100 * self.event_cpu:.4g}% of a slot's CPU for its events; it is between 0 and what "
                                f"all takes at the peak rate ({100 * self.cpu:.4g}%)")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated rate and load of a number of threads on one slot, and its basis.

    ``beyond`` is more threads than were measured: they are taken to do no better than the most that were.
    """

    point: Point
    basis: Basis

    def cpu_at(self, rate_per_s: float) -> float:
        """Share of a slot's CPU at a rate: of the events in proportion, of batches by how often they run.

        Batches that take more than half of their trigger's time, and many events besides, add up to no more than all.
        """
        point, part = self.point, rate_per_s / self.point.rate_per_s
        return min(1.0, point.of_events * part + point.idle_cpu * self.often_at(rate_per_s))

    def often_at(self, rate_per_s: float) -> float:
        """The part of the triggers that runs a batch: all up to half the peak rate, then less in a line."""
        beyond = max(0.0, min(1.0, rate_per_s / self.point.rate_per_s) - BUSY) / (1.0 - BUSY)
        return 1.0 - beyond * (1.0 - self.point.often)

    def reserve_at(self, rate_per_s: float) -> float:
        """Share of a slot's CPU that has to be there for it, if it has the slot together with others.

        A batch that waits for three quarters of its time has the fourth to do its work in: it needs the core four times
        as fast as its mean load says. At its peak a query that waits shares its slot with hardly anybody.
        """
        point, part = self.point, rate_per_s / self.point.rate_per_s
        cpu, working = point.fewest_batches_cpu + point.of_events * part, 1.0 - point.waits * part
        return min(1.0, max(self.cpu_at(rate_per_s), cpu / working if cpu < working else 1.0))

    def memory_at(self, rate_per_s: float) -> float:
        """Share of a slot's memory at a rate: in proportion, above what is taken at any rate."""
        idle = self.point.idle_memory
        return idle + (self.point.memory - idle) * rate_per_s / self.point.rate_per_s


@dataclass(frozen=True, slots=True)
class Profile:
    """The measured points of a task type, fewest threads first.

    Parameters
    ----------
    config : str
        Canonical JSON of the config that was measured; empty where the profile stands for any.
    machine : str
        Class of the machine that it was measured on; empty where nobody noted it.
    code : str
        Digest of the code that was measured; empty where nobody noted it.
    static : bool
        True if it is so light that one thread with a fixed share does at any rate: paper [2] (8.3) treats sources and
        sinks so. Its one point's rate says nothing.
    """

    task_type: str
    points: tuple[Point, ...]
    config: str = ""
    version: int = 1
    machine: str = ""
    static: bool = False
    origin: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(sorted(self.points, key=lambda point: point.threads)))
        counts = [point.threads for point in self.points]
        wrong = "no measured point" if not counts else ""
        wrong = wrong or next((problem for point in self.points for _, problem in point.problems()), "")
        if not wrong and (twice := next((count for count, after in pairwise(counts) if count == after), 0)):
            wrong = f"two points for {twice} threads"
        if not wrong and self.static and counts != [1]:
            wrong = "no single point for one thread, and is said to be static"
        if wrong:
            raise InvalidProfile(
                f"The profile of {self.task_type} has {wrong}", remedy="Correct that point, or measure it again.",
                task_type=self.task_type, problem=wrong,
            )

    @property
    def peak(self) -> Point:
        """The highest peak rate that was measured (ω̂), at the fewest threads that reach it (τ̂)."""
        return max(self.points, key=lambda point: (point.rate_per_s, -point.threads))

    @property
    def one_thread(self) -> Point:
        """The point of one thread; ``MissingProfile`` where it was not measured."""
        if self.points[0].threads != 1:
            raise MissingProfile(
                f"One thread of {self.task_type} was not measured, {self.points[0].threads} are the fewest",
                remedy="Measure one thread, too.", task_type=self.task_type, fewest=self.points[0].threads,
            )
        return self.points[0]

    @property
    def of_one_thread(self) -> Profile:
        """The profile of a task that never has more than one thread on a slot; raises as `one_thread` does."""
        return self if len(self.points) == 1 else replace(self, points=(self.one_thread,))

    def at_speed(self, ratio: float) -> Profile:
        """The same task on cores that run so many times as fast as those that it was measured on."""
        return replace(self, points=tuple(
            replace(point, cpu=min(1.0, point.cpu / ratio)) if self.static else point.at_speed(ratio)
            for point in self.points))

    def adequate(self, rate_per_s: float) -> Point:
        """The point with the fewest threads that sustains a rate on one slot (𝒯): measured ones only."""
        for point in self.points:
            if point.rate_per_s >= rate_per_s * (1 - TOLERANCE):
                return point
        peak = self.peak
        raise RateNotHeld(
            f"No slot holds {rate_per_s:g} events/s of {self.task_type}: the peak measured is {peak.rate_per_s:g} "
            f"events/s, with {peak.threads} threads",
            remedy="Lower the rate, thin the stream before it, or measure more threads or a larger machine.",
            task_type=self.task_type, rate_per_s=rate_per_s, peak_per_s=peak.rate_per_s, threads=peak.threads,
        )

    def estimate(self, threads: int) -> Estimate:
        """The estimate for any number of threads: measured, or linear between the two nearest, and marked so."""
        if self.static or threads >= self.points[-1].threads:
            last = self.points[-1]
            is_measured = self.static or threads == last.threads
            return Estimate(replace(last, threads=threads), "measured" if is_measured else "beyond")
        above = next(index for index, point in enumerate(self.points) if point.threads >= threads)
        high = self.points[above]
        if high.threads == threads:
            return Estimate(high, "measured")
        if above == 0:  # fewer than the fewest that were measured: in proportion
            return Estimate(_between(Point(0, 0.0, 0.0, 0.0), high, threads), "interpolated")
        return Estimate(_between(self.points[above - 1], high, threads), "interpolated")

    def stale(self, *, version: int, machine: str, code: str = "") -> str:
        """The reason why it is not valid for this version and code of the type on this class of machine; empty where it
        does. What nobody noted, then or now, contradicts nothing."""
        if version != self.version:
            return f"measured with version {self.version} of {self.task_type}, which is now version {version}"
        if is_other_code(self.code, code):
            return f"measured with other code of {self.task_type} than there is now"
        if self.machine and machine != self.machine:
            return f"measured on {self.machine}; here is {machine or 'an unnamed machine'}"
        return ""


def is_other_code(measured: str, now: str) -> bool:
    """True if two digests are of different code.

    Not where one of them is empty, or they were made by different schemes (the part before the colon, none in digests
    from before there were several): then nothing is known.
    """
    schemes = {digest.rpartition(":")[0] for digest in (measured, now)}
    return bool(measured and now) and len(schemes) == 1 and measured != now


class Profiles:
    """Profiles to look up by task: the one of its very config, else the one of its type for any config.

    Where a type has several, one of ``machine`` comes first, then the later given one. Whether one is stale is not
    asked: one of the very config says more than a newer one for any.
    """

    def __init__(
        self, profiles: Iterable[Profile], *, machine: str = "", task_types: TaskTypes | None = None
    ) -> None:
        self._task_types = task_types or {}
        self._by_key: dict[tuple[str, str], Profile] = {}
        for profile in profiles:
            key = (profile.task_type, profile.config)
            before = self._by_key.get(key)
            if before is None or profile.machine == machine or before.machine != machine:
                self._by_key[key] = profile

    def find(self, task: Task) -> Profile | None:
        """The profile of a task; of a dynamic one that of the alternate that is on at first, or what those of its path
        come to. None where one is missing."""
        profiles = [(self._find(step), share) for step, share in done_at_first(task, self._task_types)]
        if len(profiles) == 1:
            return profiles[0][0]
        measured = [(profile, share) for profile, share in profiles if profile is not None]
        return along(measured) if len(measured) == len(profiles) else None

    def _find(self, task: Task) -> Profile | None:
        task_type = self._task_types.get(task.type)
        config = task.config if task_type is None else canonical_config(task_type, task.config)
        return self._by_key.get((task.type, canonical_json(config))) or self._by_key.get((task.type, ""))

    def of(self, tasks: Iterable[Task]) -> Mapping[str, Profile]:
        """The profile of each task, by task id."""
        profiles = {task.id: (task, self.find(task)) for task in tasks}
        missing = [task_id for task_id, (_, profile) in profiles.items() if profile is None]
        if missing:
            steps = [step for task_id in missing for step, _ in done_at_first(profiles[task_id][0], self._task_types)]
            types = sorted({step.type for step in steps if self._find(step) is None})
            raise MissingProfile(
                f"{len(missing)} of {len(profiles)} tasks have no profile in use, of types {', '.join(types)}",
                remedy="Measure these task types, import their profiles, or use one again that was set aside.",
                tasks=sorted(missing), task_types=types,
            )
        return {task_id: profile for task_id, (_, profile) in profiles.items() if profile is not None}


def along(profiles: Sequence[tuple[Profile, float]]) -> Profile:
    """The joint profile of the tasks of a path in one query, each with its number of events for each that enters.

    Their times for an event add up, and so does the memory that events take; a query has one batch at a trigger. The
    profile has the numbers of threads for which all were measured, or one. It is an estimate if one of them is.
    """
    counts = set.intersection(*({point.threads for point in profile.points} for profile, _ in profiles)) or {1}
    points = []
    for threads in sorted(counts):
        pairs = [
            (profile.estimate(threads).point, share) for profile, share in profiles if not profile.static and share]
        if not pairs:
            pairs = [(profile.estimate(threads).point, 1.0) for profile, _ in profiles]
        rate = 1.0 / sum(share / point.rate_per_s for point, share in pairs)
        cpu = min(1.0, sum(point.cpu * share * rate / point.rate_per_s for point, share in pairs))
        memory = min(1.0, sum(point.memory for point, _ in pairs))
        points.append(Point(
            threads, rate, cpu, memory, idle_cpu=min(cpu, max(point.idle_cpu for point, _ in pairs)),
            idle_memory=min(memory, max(point.idle_memory for point, _ in pairs))))
    origin = max((profile.origin for profile, _ in profiles), key=lambda text: (text.startswith("estimated"), text))
    machines = {profile.machine for profile, _ in profiles}
    return Profile(PATH, tuple(points), origin=origin, machine=machines.pop() if len(machines) == 1 else "")


def counted_threads(counts: Sequence[int]) -> str:
    """Numbers of threads in words: ``1 thread``, ``16 threads``, ``1, 2 threads``."""
    return f"{', '.join(map(str, counts))} thread{'s' * (list(counts) != [1])}"


def _between(low: Point, high: Point, threads: int) -> Point:
    part = (threads - low.threads) / (high.threads - low.threads)

    def mixed(name: str) -> float:
        return getattr(low, name) + part * (getattr(high, name) - getattr(low, name))

    return Point(
        threads, mixed("rate_per_s"), mixed("cpu"), mixed("memory"), mixed("idle_cpu"), mixed("idle_memory"),
        None if low.event_cpu is None and high.event_cpu is None else mixed("of_events"))
