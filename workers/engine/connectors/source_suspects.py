"""Which source ends the connector host that it shares with others: suspects start alone, as queries do (``blame``).

    <data-dir>/nodes/<node>/connectors.ended      the host took more memory than it may; written as it ended
    <data-dir>/nodes/<node>/connectors.suspects   what follows for its sources

All that were read then are suspects, and one by one they have their turn, until they have given something or have
nothing to give. Who ends the host twice alone is left alone for a while.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from scheduler.contracts.reports import ConnectorReport
from workers.engine.agents.agent_logs import logger
from workers.engine.agents.blame import DEATHS, IDLE_MS, TURN_MS, Death, Suspicion
from workers.engine.agents.node_files.atomic_files import write_atomically
from workers.engine.retried import RETRYING, RUNNING, STARTING

from .source_runner import Runner

Record = TypeVar("Record")
LEFT_ALONE_MS = 900_000  # for so long a source is not read that ended its host twice


class SourceSuspects:
    """Holds sources of a node back, by what its connector hosts died of."""

    def __init__(self, folder: Path, *, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._ended, self._path = folder / "connectors.ended", folder / "connectors.suspects"
        self._turn: tuple[str, int] | None = None  # whose it is, and since when (ms)
        self._now = self._stored = _read(self._path, Suspicion.of) or Suspicion()
        if (death := _read(self._ended, _death_of)) is not None:
            self._keep(self._now.after(death, batching=()))

    def note_end(self, reading: Collection[str], *, taken_bytes: int) -> None:
        """Leave word that this host ends for its memory, with the sources that it reads."""
        write_atomically(self._ended, json.dumps({
            "at_ms": self._clock_ms(), "sources": sorted(reading), "taken_mb": taken_bytes >> 20}))

    def held(self, wanted: Collection[str], runners: Mapping[str, Runner]) -> dict[str, ConnectorReport]:
        """The sources that are not to be read now, each with what is told of it."""
        now_ms, now = self._clock_ms(), self._now.only(wanted)
        if now.given_up and now_ms - now.at_ms >= LEFT_ALONE_MS:
            for source in sorted(now.given_up):
                now = now.pardoned(source)
        now = self._after_turn(now, runners, now_ms)
        self._keep(now)
        waiting = {source: ConnectorReport(STARTING, now.at_ms) for source in now.waiting}
        return waiting | {source: ConnectorReport(
            RETRYING, now.at_ms, error=_in_words(now.why), retry_at_ms=now.at_ms + LEFT_ALONE_MS,
            restarts=now.deaths.get(source, 0)) for source in now.given_up}

    def _after_turn(self, now: Suspicion, runners: Mapping[str, Runner], now_ms: int) -> Suspicion:
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

    def _keep(self, suspicion: Suspicion) -> None:
        self._now = suspicion
        if suspicion != self._stored:
            self._stored = suspicion
            write_atomically(self._path, json.dumps(suspicion.document()))
            logger().warning("sources are suspected of their host's end", **suspicion.document())


def _in_words(why: str) -> str:
    return (
        f"This source ended the process that reads the node's sources {DEATHS} times, alone. {why} It is read again "
        f"after {LEFT_ALONE_MS // 60_000} minutes. What it is sent becomes too large when it is unpacked: delete that "
        "at the source, send it in smaller parts, or give the node more (WEIR_CONNECTOR_MEMORY_MB).")


def _death_of(document: Mapping[str, Any]) -> Death:
    sources = tuple(document["sources"])
    return Death(document["at_ms"], sources, sources, f"It had {document['taken_mb']:,} MB of memory then.")


def _read(path: Path, read: Callable[[Mapping[str, Any]], Record]) -> Record | None:
    """What stands in a file; None where it is not there, or is none of what is written there."""
    try:
        return read(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger().warning("unreadable file", path=path.name, why=str(error)[:200])
        return None
