"""Finds the query that ends its slot's driver: suspects start alone, one by one; who ends it twice is given up. Pure.

A query can end the driver that it shares with others: it takes all memory, or all time. What died with the driver says
little of which one it was, for several had a batch under way or had begun last. So after such a death these are
*suspects*: the others start at once, the suspects one by one, each once the one before it has done a batch. A death
while one suspect has its turn, or with one suspect alone, is that query's. Who does a batch in its turn is cleared: the
batch that was under way at the death is done again first.

What somebody outside kills is nobody's fault, and is not told here (``supervision``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

DEATHS = 2  # of a driver that are one query's: it is given up
TURN_MS = 60_000  # for so long a suspect may be at its first batch while others wait for their turn
IDLE_MS = 5_000  # a suspect that runs and has no batch under way for so long has nothing to do


@dataclass(frozen=True, slots=True)
class Death:
    """A driver's unwanted end: its JVM ended, or did not answer for too long.

    ``working``: its queries, upstream first, including those that began; ``beginning``: those of them without a
    finished batch; ``why``: a sentence; ``at_ms``: since the epoch, which tells it from others.
    """

    at_ms: int
    working: tuple[str, ...] = ()
    beginning: tuple[str, ...] = ()
    why: str = ""

    @classmethod
    def of(cls, report: Mapping[str, Any], *, at_ms: int, reason: str) -> Death:
        """The death of a driver whose slot reported so last."""
        working = {name: query for name, query in report.get("fragments", {}).items()
                   if query.get("state") in ("starting", "running")}
        beginning = (
            name for name, query in working.items() if query["state"] == "starting" or not query.get("batches"))
        return cls(at_ms, tuple(working), tuple(beginning), reason)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A slot's knowledge of the queries that may have ended its driver; it outlives the driver.

    ``suspects`` have not had their turn yet, the first is tried now; ``deaths`` counts those that were one query's
    alone; ``given_up`` are not started; ``at_ms`` and ``why`` are of the death that was looked at last.
    """

    suspects: tuple[str, ...] = ()
    deaths: Mapping[str, int] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()
    at_ms: int = 0
    why: str = ""

    @property
    def waiting(self) -> frozenset[str]:
        """Suspects whose turn is still to come."""
        return frozenset(self.suspects[1:])

    def after(self, death: Death, *, batching: Collection[str]) -> Suspicion:
        """The suspicion after a death of the driver; the same where that was looked at before.

        Parameters
        ----------
        batching : collection of str
            Queries whose checkpoint has a batch that was planned and not done.
        """
        if death.at_ms == self.at_ms:
            return self
        at_work = [query for query in death.working if query in batching or query in death.beginning]
        suspects = tuple(query for query in at_work if query not in self.given_up)
        alone = tuple(query for query in self.suspects[:1] if query in suspects) or suspects[:len(suspects) == 1]
        deaths = {**self.deaths, **{query: self.deaths.get(query, 0) + 1 for query in alone}}
        given_up = self.given_up | {query for query in alone if deaths[query] >= DEATHS}
        # Who was tried comes first again; the others of that round still wait for their turn.
        suspects_left = tuple(query for query in dict.fromkeys((*self.suspects, *suspects)) if query not in given_up)
        return Suspicion(suspects_left, deaths, given_up, death.at_ms, death.why)

    def tried(self, query: str, *, cleared: bool) -> Suspicion:
        """A suspect's turn is over: it has done a batch (``cleared``), or never does."""
        deaths = {name: count for name, count in self.deaths.items() if name != query or not cleared}
        return replace(self, suspects=tuple(name for name in self.suspects if name != query), deaths=deaths)

    def pardoned(self, query: str) -> Suspicion:
        """Somebody wants a query that was given up tried again: alone, and given up at the next death that is its."""
        if query not in self.given_up:
            return self
        return replace(self, suspects=(*self.suspects, query), given_up=self.given_up - {query},
                       deaths={**self.deaths, query: DEATHS - 1})

    def only(self, names: Collection[str]) -> Suspicion:
        """Without queries that nobody wants any more: what takes their place has another id."""
        if self.given_up <= set(names) and self.deaths.keys() <= set(names) and set(self.suspects) <= set(names):
            return self
        return Suspicion(
            tuple(name for name in self.suspects if name in names),
            {name: count for name, count in self.deaths.items() if name in names},
            self.given_up.intersection(names), self.at_ms, self.why)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"suspects": list(self.suspects), "deaths": dict(self.deaths), "given_up": sorted(self.given_up),
                "at_ms": self.at_ms, "why": self.why}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Suspicion:
        """Read from JSON."""
        return cls(tuple(document["suspects"]), dict(document["deaths"]), frozenset(document["given_up"]),
                   document["at_ms"], document["why"])

    def in_words(self) -> str:
        """The message about a query that was given up."""
        return (
            f"This query ended its slot's driver {DEATHS} times in its first batch there, and with it all queries "
            f"beside it for a while. {self.why} It is not started any more. It takes more memory or time for its "
            "events than a slot has: submit a new version that makes less of each event (shorter texts and lists, a "
            "smaller window, fewer keys), or remove the dataflow. “Try again” starts it once more, alone.")
