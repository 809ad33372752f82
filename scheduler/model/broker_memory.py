"""The fill level of the broker's memory, and the shares from which writers of the largest channels, then all sources,
wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

# Shares of the broker's bound: from the first on they wait, below the second they go on.
LARGEST_WAIT, ALL_GO_ON = 0.6, 0.5
SOURCES_WAIT, GO_ON = 0.8, 0.7
OF_BROKER = "broker"  # what a source says that it waits for, in place of a full channel
REMEDY = (
    "Pause or remove dataflows that are far behind, or give the broker more memory (WEIR_BROKER_MEMORY_MB, or of a "
    "broker of your own maxmemory). The logs of nodes' agents name what holds most.")


@dataclass(frozen=True, slots=True)
class BrokerMemory:
    """Bytes that a broker holds, and that it may hold: 0 where it has no bound of its own."""

    held: int = 0
    most: int = 0
    policy: str = "noeviction"

    @property
    def loses(self) -> bool:
        """True if it drops keys when it is full."""
        return bool(self.most) and self.policy != "noeviction"

    def is_crowded(self, *, was: bool = False) -> bool:
        """True if sources are to wait; once they do, until there is clearly more room.

        >>> [BrokerMemory(held, 100).is_crowded(was=was) for held, was in ((81, False), (75, False), (75, True))]
        [True, False, True]
        """
        return bool(self.most) and self.held > (GO_ON if was else SOURCES_WAIT) * self.most

    def is_well_used(self, *, was: bool = False) -> bool:
        """True if the largest channels are to wait, so that nobody fills the broker for others."""
        return bool(self.most) and self.held > (ALL_GO_ON if was else LARGEST_WAIT) * self.most

    def too_large(self, sizes: Mapping[str, int], *, waiting: Collection[str] = ()) -> frozenset[str]:
        """The channels whose writers are to wait: those that wait already, then the largest, until the remaining ones
        hold at most twice the room that is left before sources wait.

        Parameters
        ----------
        sizes : mapping of str to int
            The bytes of the broker's memory that each channel takes.

        Examples
        --------
        >>> sorted(BrokerMemory(70, 100).too_large({"a": 30, "b": 20, "c": 15, "d": 5}))
        ['a', 'b']
        >>> sorted(BrokerMemory(60, 100).too_large({"a": 30, "b": 20, "c": 5, "d": 5}, waiting=["b"]))
        ['b']
        """
        chosen = {channel for channel in waiting if channel in sizes}
        others = {channel: size for channel, size in sizes.items() if channel not in chosen}
        bytes_of_others = sum(others.values())
        for channel in sorted(others, key=lambda channel: (-others[channel], channel)):
            if bytes_of_others <= 2 * (SOURCES_WAIT * self.most - self.held):
                break
            chosen.add(channel)
            bytes_of_others -= others[channel]
        return frozenset(chosen)


NO_BOUND = BrokerMemory()
