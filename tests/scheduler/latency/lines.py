"""Lines of tasks that are cut into queries, with every sequence of tasks and streams along them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from scheduler.latency.pacing import Queries
from scheduler.latency.triggers import BatchCost
from scheduler.model.estate import Estate, Submitted
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.latency_limits import LatencyLimit, canonical, stream_ends, stream_text

FLOW = "flow"
COST = BatchCost(batch_s=0.1, batch_cpu_s=0.05)


@dataclass(frozen=True)
class Line:
    """A dataflow of tasks one after the other, and the estate in which it runs: queries f0, f1 and so on."""

    tasks: tuple[str, ...]
    estate: Estate

    @property
    def home(self) -> dict[str, str]:
        """The query of each task."""
        return {task: self.estate.places[f"r-{task}"][0] for task in self.tasks}

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """Which queries each of them reads."""
        return {name: tuple(self.estate.places[parent][0] for parent in self.estate.tasks[fragment.tasks[0]].parents)
                for name, fragment in self.estate.fragments.items()}

    @property
    def elements(self) -> tuple[str, ...]:
        """Its tasks, and the streams between them."""
        between = [element for ends in pairwise(self.tasks) for element in (ends[0], stream_text(*ends))]
        return (*between, self.tasks[-1])

    def slices(self) -> st.SearchStrategy[tuple[int, int]]:
        """Where sequences of elements begin and end."""
        last = len(self.elements)
        return st.integers(0, last - 1).flatmap(
            lambda begin: st.tuples(st.just(begin), st.integers(begin + 1, last)))

    def limit(
        self, begin: int, end: int, *, limit_s: float = 1.0, percentile: float | None = None
    ) -> LatencyLimit:
        """A limit along some of its elements."""
        return LatencyLimit(limit_s, canonical(self.elements[begin:end]), percentile=percentile)

    def parts_with(self, query: str, cuts: Sequence[int]) -> int:
        """In how many parts there are tasks of a query."""
        return sum(
            any(stream_ends(element) is None and self.home[element] == query for element in self.elements[begin:end])
            for begin, end in pairwise(cuts))


def line_of(queries: Sequence[str], *, joined: Collection[int] = (), resting: Collection[str] = ()) -> Line:
    """A line of tasks with one letter each, a query for each word; ``joined`` ones also read a source beside it."""
    names = "".join(queries)
    parents = {name: (f"r-{before}",) for before, name in pairwise(names)}
    for at in joined:
        parents[queries[at][0]] += ("r-beside",)
    tasks = {f"r-{name}": RunningTask(f"r-{name}", "any", {}, parents.get(name, ())) for name in names}
    fragments = {
        f"f{at}": Fragment(f"f{at}", tuple(f"r-{name}" for name in query), "n1/0", sum(
            name not in resting for name in query), resting=sum(name in resting for name in query))
        for at, query in enumerate(queries)}
    if joined:
        tasks["r-beside"] = RunningTask("r-beside", "any", {}, ())
        fragments["beside"] = Fragment("beside", ("r-beside",), "n1/0", 1)
    submitted = Submitted(FLOW, FLOW, "team", {name: f"r-{name}" for name in names}, (names[-1],))
    return Line(tuple(names), Estate(0, tasks, {FLOW: submitted}, fragments))


@st.composite
def _lines(draw: st.DrawFn) -> Line:
    names = "abcdefg"[:draw(st.integers(1, 7))]
    cuts = sorted(draw(st.sets(st.integers(1, len(names) - 1)))) if len(names) > 1 else []
    queries = [names[begin:end] for begin, end in pairwise([0, *cuts, len(names)])]
    joined = draw(st.sets(st.integers(1, len(queries) - 1), max_size=1)) if len(queries) > 1 else set()
    return line_of(queries, joined=joined)


LINES = _lines()


def costs_of(line: Line, data: st.DataObject | None = None) -> dict[str, BatchCost]:
    """What batches of its queries take: all the same, unless they are drawn."""
    return {
        query: COST if data is None else BatchCost(
            data.draw(st.sampled_from([0.02, 0.1, 0.3])), 0.05, 10, data.draw(st.sampled_from([0.0, 0.002])), 0.0005)
        for query in line.estate.fragments}


def lasts_s(queries: Queries, query: str, intervals_s: Mapping[str, float]) -> float:
    """What a batch takes, by definition: it holds the events of the longest interval upstream."""
    return queries.costs[query].duration_s(held_s(queries, query, intervals_s))


def held_s(queries: Queries, query: str, intervals_s: Mapping[str, float]) -> float:
    """Of how much time a batch holds the events."""
    return max([intervals_s[query], *(held_s(queries, writer, intervals_s) for writer in queries.reads.get(query, ()))])


def waits_s(queries: Queries, query: str, intervals_s: Mapping[str, float], share: float = 0.5) -> float:
    """What blocks wait for a batch, by definition: all of an interval where they are of several writers, half of it
    where they come oftener than batches may begin, and else nothing."""
    if len(queries.reads[query]) > 1:
        return intervals_s[query]
    return 0.0 if _follows(queries, query, intervals_s) else share * intervals_s[query]


def _follows(queries: Queries, query: str, intervals_s: Mapping[str, float]) -> bool:
    return 0.9 * intervals_s[query] <= _blocks_s(queries, queries.reads[query][0], intervals_s)


def _batches_s(queries: Queries, query: str, intervals_s: Mapping[str, float]) -> float:
    """How far apart batches begin at the least: a reader's a tenth of its interval earlier."""
    writers = queries.reads.get(query, ())
    own_s = intervals_s[query] * (0.9 if writers else 1.0)
    return own_s if len(writers) != 1 else max(own_s, _batches_s(queries, writers[0], intervals_s))


def _blocks_s(queries: Queries, query: str, intervals_s: Mapping[str, float]) -> float:
    """How far apart blocks are written at the least: after a batch with a block more they come as much later."""
    writers, apart_s = queries.reads.get(query, ()), _batches_s(queries, query, intervals_s)
    if len(writers) != 1:
        return apart_s
    if _follows(queries, query, intervals_s):
        return _blocks_s(queries, writers[0], intervals_s)
    more_s = queries.costs[query].busy * _batches_s(queries, writers[0], intervals_s)
    return max(0.0, 0.9 * intervals_s[query] - more_s)
