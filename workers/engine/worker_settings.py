"""Settings of the worker side, read from the environment in this one place. Imports nothing of Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scheduler.contracts.desired import DEFAULT_TRIGGER_MS

ROOT = Path(__file__).resolve().parents[2]
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 0.05, 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an agent and its slots."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    data_dir: Path = ROOT / "data"
    node: str = "n1"
    slots: int = 2
    trigger_ms: int = DEFAULT_TRIGGER_MS
    supervisor_cycle_s: float = 2.0  # an agent looks at its desired state so often, beside what is pushed
    worker_cycle_s: float = 0.5  # and a slot at what its agent has stored
    channels_jar: Path | None = None  # where it is not in ``data_dir``
    spark_master: str = ""  # empty: this machine, with ``threads`` threads a slot
    slot_cores: int = 4  # of a cluster, for each slot: tasks at a time
    threads: int = 160  # as many as a bundle may have; they cost nothing idle
    slot_memory_mb: int = 1024  # the JVM's heap, and its executor's; Python workers and RocksDB come on top
    connector_memory_mb: int = 0  # that the process may take that reads live sources; 0: half of the machine's
    hold_s: float = 10.0  # for how long a slow reader may hold back a stream that others need
    spill_mb: int = 1024  # on disk, for all slow readers of the node
    file_mb: int = 64  # at how many staged MB a sink's file is closed
    file_s: float = 60.0  # or how many seconds after its first event
    files_keep_days: float = 0.0  # of closed files; 0: for ever
    files_keep_mb: int = 0  # of the closed files of each sink; 0: all
    spill_team_mb: int = 512  # of that, for those of one team
    spares: int = 0  # drivers that are kept ready to take the place of one that dies: 0 or 1
    spark_pages: bool = False  # of drivers that are shown on the site
    class_archive: bool = True  # one is written where it is missing; drivers start sooner with it
    copies: int = 0  # of each query's state, on other nodes
    copy_s: float = 10.0  # between two of them
    copies_mb: int = 1024  # for those of other nodes
    node_lost_s: float = 2.0  # without a heartbeat, after which a node's queries go on from copies
    zone: str = ""  # what fails together with this node
    pin: Literal["auto", "always", "never"] = "auto"
    link: str = ""  # by what the launcher has joined this node to the broker, in words; empty: by nothing of its own

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two heartbeats of the node: a quarter of what it may be silent, twice a second at least."""
        return min(0.5, max(0.05, self.node_lost_s / 4))


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the environment asks for; every one has a default."""
    env = os.environ if environment is None else environment
    default = Settings()
    return Settings(
        redis_url=env.get("REDIS_URL", default.redis_url),
        data_dir=Path(env.get("WEIR_DATA_DIR", default.data_dir)).resolve(),
        node=env.get("WEIR_NODE", default.node),
        slots=int(env.get("WEIR_SLOTS", default.slots)),
        trigger_ms=int(env.get("WEIR_TRIGGER_MS", default.trigger_ms)),
        supervisor_cycle_s=_cycle_s(env, "WEIR_SUPERVISOR_CYCLE_S", default.supervisor_cycle_s),
        worker_cycle_s=_cycle_s(env, "WEIR_WORKER_CYCLE_S", default.worker_cycle_s),
        channels_jar=Path(jar).resolve() if (jar := env.get("WEIR_CHANNELS_JAR", "").strip()) else None,
        spark_master=env.get("WEIR_SPARK_MASTER", default.spark_master),
        slot_cores=int(env.get("WEIR_SLOT_CORES", default.slot_cores)),
        threads=int(env.get("WEIR_SLOT_THREADS", default.threads)),
        slot_memory_mb=int(env.get("WEIR_SLOT_MEMORY_MB", default.slot_memory_mb)),
        connector_memory_mb=max(0, int(env.get("WEIR_CONNECTOR_MEMORY_MB", default.connector_memory_mb))),
        hold_s=float(env.get("WEIR_HOLD_S", default.hold_s)),
        spill_mb=int(env.get("WEIR_SPILL_MB", default.spill_mb)),
        file_mb=int(env.get("WEIR_FILE_MB", default.file_mb)),
        file_s=float(env.get("WEIR_FILE_S", default.file_s)),
        files_keep_days=float(env.get("WEIR_FILES_KEEP_DAYS", default.files_keep_days)),
        files_keep_mb=int(env.get("WEIR_FILES_KEEP_MB", default.files_keep_mb)),
        spill_team_mb=int(env.get("WEIR_SPILL_TEAM_MB", default.spill_team_mb)),
        spares=int(_choice(env, "WEIR_SPARES", ("0", "1"), str(default.spares))),
        spark_pages=_choice(env, "WEIR_SPARK_PAGES", ("0", "1"), "0") == "1",
        class_archive=_choice(env, "WEIR_CLASS_ARCHIVE", ("0", "1"), "1") == "1",
        copies=int(_choice(env, "WEIR_COPIES", ("0", "1", "2", "3"), str(default.copies))),
        copy_s=float(env.get("WEIR_COPY_S", default.copy_s)),
        copies_mb=int(env.get("WEIR_COPIES_MB", default.copies_mb)),
        node_lost_s=float(env.get("WEIR_NODE_LOST_S", default.node_lost_s)),
        zone=env.get("WEIR_ZONE", default.zone),
        pin=_choice(env, "WEIR_PIN", ("auto", "always", "never"), default.pin),
        link=env.get("WEIR_LINK", default.link),
    )


def _cycle_s(env: Mapping[str, str], name: str, default: float) -> float:
    """Seconds between two looks: shorter ones cost more than they save, and longer ones pass for a node that is gone.
    """
    text = env.get(name, "").strip()
    try:
        cycle_s = float(text) if text else default
    except ValueError:
        cycle_s = 0.0
    if not SHORTEST_CYCLE_S <= cycle_s <= LONGEST_CYCLE_S:
        raise ValueError(
            f"{name} is {text!r}; it must be a number of seconds from {SHORTEST_CYCLE_S:g} to {LONGEST_CYCLE_S:g}.")
    return cycle_s


def _choice(env: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = env.get(name, default)
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
    return value
