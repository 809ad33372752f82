"""Finds the source or sink that ends the connector host that it shares with others: suspects start alone, as queries do
(``blame``).

    <data-dir>/nodes/<node>/connectors/connectors.working    what the host reads and writes now
    <data-dir>/nodes/<node>/connectors/connectors.ended      it took more memory than it may; written as it ended
    <data-dir>/nodes/<node>/connectors/connectors.crashed    where it crashed, as in a library in C; likewise
    <data-dir>/nodes/<node>/connectors/connectors.suspects   what follows for sources and sinks

All that it worked at then are suspects, and one by one they have their turn, until they have given something or have
nothing to give. In whose turn the host ended is tried in a host that has nothing else, for another may have ended it.
Who ends one then is left alone for a while. Sinks have their turn first: what a sink could not write waits in its
channel, whether a source is read or not.
"""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from scheduler.contracts.reports import ConnectorReport, SinkReport
from workers.engine.agents.agent_logs import logger
from workers.engine.agents.blame import DEATHS, IDLE_MS, TURN_MS, Death, Suspicion
from workers.engine.agents.failing.kept_suspicion import KeptSuspicion, read_record
from workers.engine.agents.node_files.atomic_files import write_atomically
from workers.engine.retried import RETRYING, RUNNING, STARTING

LEFT_ALONE_MS = 900_000  # for so long a source or sink rests that ended its host twice
_SHOWN = 4_000  # characters of where it crashed that are logged
TOO_LARGE = (
    "It had {:,} MB of memory then: what this task is sent becomes too large when it is unpacked. Delete that at the "
    "other system, send it in smaller parts, or give the node more (WEIR_CONNECTOR_MEMORY_MB).")
CRASHED = (
    "It crashed over an answer of the other system. Check that its address is right, and look at the newest data "
    "there; the log of the node's connectors says where it crashed.")


class Hosted(Protocol):
    """A source or sink at work."""

    has_given: bool

    def report(self) -> ConnectorReport | SinkReport: ...


class SourceSuspects:
    """Holds sources and sinks of a node back, by what its connector hosts died of."""

    def __init__(self, folder: Path, *, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._end_path = folder / "connectors.ended"
        self._crashed, self._working_path = folder / "connectors.crashed", folder / "connectors.working"
        self._working: tuple[str, ...] = ()
        self._turn: tuple[str, int] | None = None  # whose it is, and since when (ms)
        self._suspicion = KeptSuspicion(
            folder / "connectors.suspects", event="sources and sinks are suspected of their host's end")
        deaths = [death for death in (read_record(self._end_path, _death_of), self._crash()) if death is not None]
        if deaths:  # the newer one: the other was looked at before
            self._suspicion.keep(_blamed(self._suspicion.now, max(deaths, key=lambda death: death.at_ms)))
            self._end_path.unlink(missing_ok=True)  # or it would count again, once a crash has come after it

    def note_crashes(self) -> None:
        """Have Python write down where this process crashes."""
        self._crashed.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._crashed.open("w")
        faulthandler.enable(self._file)

    def note_work(self, names: Collection[str]) -> None:
        """Note the sources and sinks that this host works for; before it begins, for it may end it at once."""
        if (working := tuple(names)) != self._working:
            self._working = working
            with suppress(OSError):  # a full disk stops nobody
                write_atomically(self._working_path, json.dumps(working))

    def note_end(self, *, taken_bytes: int) -> None:
        """Leave word that this host ends for its memory, with what it reads and writes."""
        write_atomically(self._end_path, json.dumps({
            "at_ms": self._clock_ms(), "sources": self._working, "taken_mb": taken_bytes >> 20}))

    def _crash(self) -> Death | None:
        """The crash of the host before this one, if it crashed."""
        try:
            with self._crashed.open(errors="replace") as file:
                where, at_ms = file.read(_SHOWN), int(self._crashed.stat().st_mtime * 1000)
        except OSError:
            return None
        working = read_record(self._working_path, _names) if where else None
        if not working:
            return None
        logger().error("sources and sinks ended by a crash", where=where)
        return Death(at_ms, working, working, CRASHED)

    def held(self, names: Collection[str], runners: Mapping[str, Hosted]) -> dict[str, ConnectorReport]:
        """The sources and sinks that are not to begin now, each with what is told of it."""
        self.note_work(runners)
        now_ms, now = self._clock_ms(), self._suspicion.now.only(names)
        if now.given_up and now_ms - now.at_ms >= LEFT_ALONE_MS:
            for source in sorted(now.given_up):
                now = now.pardoned(source)
        now = self._after_turn(now, runners, now_ms)
        self._suspicion.keep(now)
        accused = now.suspects[0] if now.suspects and now.deaths.get(now.suspects[0]) else None
        waits = now.waiting if accused is None else {*names} - {accused} - runners.keys()
        waiting = {source: ConnectorReport(STARTING, now.at_ms) for source in waits}
        return waiting | {source: ConnectorReport(
            RETRYING, now.at_ms, error=_in_words(now.why), retry_at_ms=now.at_ms + LEFT_ALONE_MS,
            restarts=now.deaths.get(source, 0)) for source in now.given_up}

    def _after_turn(self, now: Suspicion, runners: Mapping[str, Hosted], now_ms: int) -> Suspicion:
        if not now.suspects:
            return now
        source = now.suspects[0]
        if self._turn is None or self._turn[0] != source:
            self._turn = (source, now_ms)
        runner, tried_ms = runners.get(source), now_ms - self._turn[1]
        if tried_ms >= TURN_MS:
            return now.tried(source, cleared=False)
        if runner is None:
            return now
        report = runner.report()
        if report.state == STARTING:
            return now
        if report.state != RUNNING:  # it is away, or fails by itself, or waits for its readers
            return now.tried(source, cleared=False)
        is_idle = now_ms - report.since_ms >= IDLE_MS
        return now.tried(source, cleared=True) if runner.has_given or is_idle else now

def _blamed(before: Suspicion, death: Death) -> Suspicion:
    """What follows of an end of the host: nobody is given up for one of a host that worked at something else, too."""
    now = before.after(death, batching=())
    for accused in now.given_up - before.given_up if len(death.working) > 1 else ():
        now = now.pardoned(accused)
        now = replace(now, suspects=tuple(dict.fromkeys((accused, *now.suspects))))
    return now


def _in_words(reason: str) -> str:
    return (
        f"This task ended the process that reads and writes for its node {DEATHS} times, alone. {reason} It is tried "
        f"again after {LEFT_ALONE_MS // 60_000} minutes.")


def _names(document: list[Any]) -> tuple[str, ...]:
    return tuple(map(str, document))


def _death_of(document: Mapping[str, Any]) -> Death:
    sources = _names(document["sources"])
    return Death(document["at_ms"], sources, sources, TOO_LARGE.format(document["taken_mb"]))
