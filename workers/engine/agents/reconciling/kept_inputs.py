"""Inputs that are kept for copies of a query's state: whether that would hold others up, or take too much room."""

from __future__ import annotations

from scheduler.contracts.desired import WantedFragment
from scheduler.elasticity.copied_queries import BEHIND, TOO_MUCH_COMES
from workers.engine.channels import keys
from workers.engine.channels.channel_config import LIVE_CAPACITY_BYTES
from workers.engine.channels.channel_info import ChannelInfo
from workers.engine.channels.channel_registry import Channels

MOST_BLOCKS = 8_192  # of a live source, behind what its query has read
AGAIN_MS = 300_000


class KeptInputs:
    """A slot's choice for which queries inputs are kept."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._crowded: set[str] = set()  # fragments that are behind in a stream that others need
        self._over_until_ms: dict[str, int] = {}  # fragments for which too much was kept

    def why_not_kept(self, fragment: WantedFragment, *, now_ms: int) -> str:
        """The reason why nothing is kept for copies of a fragment's state, in words that follow "is not copied:"; empty
        where inputs are kept.

        Copies hold nobody back: a stream that others need is half full until it is a quarter full, and a slow reader
        goes on from its node's disk, where no other node could read on. What a live source keeps for them takes no room
        there, and has bounds of its own, in blocks and bytes; for five minutes after those were reached nothing is
        kept.
        """
        shared = {item.channel for item in fragment.inputs if item.shared}
        names = [item.channel for item in fragment.inputs if item.shared or keys.is_intake(item.channel)]
        infos, _ = self._channels.look(names) if names else ({}, {})
        if any(_has_too_much(info, fragment.id) for name, info in infos.items() if keys.is_intake(name)):
            self._over_until_ms[fragment.id] = now_ms + AGAIN_MS
        if now_ms < self._over_until_ms.get(fragment.id, 0):
            return TOO_MUCH_COMES
        self._over_until_ms.pop(fragment.id, None)
        share = 4 if fragment.id in self._crowded else 2
        is_crowded = any(
            fragment.id in info.spills or (name in shared and info.filling > info.retain + info.capacity // share)
            for name, info in infos.items())
        (self._crowded.add if is_crowded else self._crowded.discard)(fragment.id)
        return BEHIND if is_crowded else ""


def _has_too_much(info: ChannelInfo, fragment: str) -> bool:
    kept_from = info.readers.get(keys.copies_reader(fragment))
    blocks = 0 if kept_from is None else max(0, info.readers.get(fragment, kept_from).block - kept_from.block)
    return blocks > MOST_BLOCKS or blocks * info.block_bytes > LIVE_CAPACITY_BYTES
