"""The configuration by which a session reaches its channels: the broker, the jar, and the sizes of batches and
blocks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .spill import spill_folder

if TYPE_CHECKING:
    from workers.engine.worker_settings import Settings

BLOCK_ROWS = 2_000
CAPACITY_BLOCKS = 256
LIVE_CAPACITY_BYTES = 64 << 20  # that wait in the channel of a live source, by the usual size of its blocks of late
CROWDED_CAPACITY_BLOCKS = 16  # of the largest channels of a broker that is well used
OPEN_CAPACITY_BLOCKS = 2_048  # of a writer in real-time mode, whose blocks have few events
EVENTS_KEPT = 1_000  # of what nodes tell of their slots and queries
KEEP_EVENTS = 1_000  # of an output whose task type says nothing else


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The settings of every read and write of a channel.

    ``jar`` is the compiled Java side where it is not in ``data_dir`` (see ``jvm/build.py``).
    ``spill`` is the folder of what the node has on disk for slow readers.
    ``wait_ms`` is how long a query without new data waits for some inside one trigger: it makes a low latency
    cost no idle CPU, because the query wakes when a block arrives instead of asking again and again.
    ``block_rows`` must not change while a query may still repeat its last batch, or the blocks would differ.
    ``blocks_each`` lets a batch take more than ``max_blocks`` where a query reads many channels: a writer makes one for
    each reader a batch, however few its events, and who takes fewer than come falls behind.
    """

    redis_url: str
    data_dir: Path = field(default_factory=lambda: Path(os.environ.get("WEIR_DATA_DIR", "data")))
    jar: Path | None = None
    spill: Path | None = None
    wait_ms: int = 190
    max_blocks: int = 64
    blocks_each: int = 4
    max_rows: int = 100_000
    block_rows: int = BLOCK_ROWS
    catch_up_ms: int = 300_000
    records_ranges: bool = False  # copies of queries' state may be on other nodes

    @classmethod
    def of(cls, settings: Settings) -> ChannelConfig:
        """The configuration of a slot with these settings."""
        return cls(
            redis_url=settings.redis_url, data_dir=settings.data_dir, jar=settings.channels_jar,
            spill=spill_folder(settings.data_dir, settings.node), records_ranges=settings.copies > 0)
