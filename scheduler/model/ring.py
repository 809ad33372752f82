"""A ring of tokens: which bundle has which keys, by consistent hashing (Karger and others, 1997).

The ring [0, 1) is cut into `KEY_GROUPS` stretches of one length, its key groups. The hash of a key's text says in which
group it is: Spark's ``xxhash64``, so that Spark, Java (``Ring.java``) and this agree. A token stands at the beginning
of a group. A key belongs to the nearest token counter-clockwise: the last one at or before its group, and, before the
first token, the last of the ring. Clockwise is where the numbers of groups rise.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .xxhash64 import xxhash64

KEY_GROUPS = 65_536


def key_group(text: str) -> int:
    """The group of a key, by its text as folds keep it (``workers.library.state.key_text``); from 0."""
    return xxhash64(text.encode()) >> 48


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The groups from a token up to the next one, clockwise: ``size`` of them, and over the ring's end."""

    token: int
    size: int
    bundle: str

    @property
    def groups(self) -> Iterator[int]:
        return (group % KEY_GROUPS for group in range(self.token, self.token + self.size))

    def has(self, group: int) -> bool:
        """True if a group is in it."""
        return (group - self.token) % KEY_GROUPS < self.size


@dataclass(frozen=True)
class Ring:
    """The division of a stream by keys: each event goes to the bundle that has the token of its key.

    Parameters
    ----------
    by : tuple of str
        The columns of the key.
    tokens : mapping of int to str
        The first group of each range, and the bundle that has it. A bundle may have several.
    leaving : tuple of str
        Bundles without a token any more: they get nothing, and read what they have to its end.
    ahead_ms : int, optional
        Each bundle is told how far every partition has come, where an event moves that so far ahead of its arrival at
        most. Without it none is.

    Examples
    --------
    >>> ring = Ring(("sensor",), {0: "f1-0", 16_384: "f1-1"}, leaving=("f0-9",))
    >>> ring.bundles, ring.served
    (('f0-9', 'f1-0', 'f1-1'), ('f1-0', 'f1-1'))
    >>> ring.owner(16_383), ring.owner(16_384)
    ('f1-0', 'f1-1')
    """

    by: tuple[str, ...]
    tokens: Mapping[int, str]
    leaving: tuple[str, ...] = ()
    ahead_ms: int | None = None

    def __post_init__(self) -> None:
        tokens = {int(token): self.tokens[token] for token in sorted(self.tokens, key=int)}
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "by", tuple(self.by))
        object.__setattr__(self, "leaving", tuple(sorted(self.leaving)))

    @classmethod
    def even(cls, by: Sequence[str], bundles: Sequence[str]) -> Ring:
        """Bundles clockwise in this order, from the ring's beginning on, with ranges of the same size but for one."""
        return cls(tuple(by), {index * KEY_GROUPS // len(bundles): bundle for index, bundle in enumerate(bundles)})

    @cached_property
    def bundles(self) -> tuple[str, ...]:
        """All that have a token or are leaving, sorted."""
        return tuple(sorted({*self.tokens.values(), *self.leaving}))

    @cached_property
    def served(self) -> tuple[str, ...]:
        """The bundles that have a token, sorted."""
        return tuple(sorted(set(self.tokens.values())))

    @property
    def why_not(self) -> str:
        """The reason why the ring is invalid: no key, no token, or one that is no group; or who leaves has one."""
        if self.by and self._sorted and self._sorted[0] >= 0 and self._sorted[-1] < KEY_GROUPS and not set(
                self.leaving) & set(self.tokens.values()):
            return ""
        return (f"cannot be divided by the keys {list(self.by)} and the tokens {dict(self.tokens)}, with "
                f"{list(self.leaving)} leaving: there must be a key and a token, tokens are from 0 to "
                f"{KEY_GROUPS - 1}, and who leaves has none")

    def renamed(self, name_of: Callable[[str], str]) -> Ring:
        """The same for bundles of other names."""
        return replace(
            self, tokens={token: name_of(bundle) for token, bundle in self.tokens.items()},
            leaving=tuple(name_of(bundle) for bundle in self.leaving))

    def document(self) -> dict[str, Any]:
        """The form in contracts, reports and the broker."""
        return {
            "by": list(self.by), "tokens": {str(token): bundle for token, bundle in self.tokens.items()},
            "leaving": list(self.leaving), **({} if self.ahead_ms is None else {"ahead_ms": self.ahead_ms})}

    def owner(self, group: int) -> str:
        """The bundle that has a group: read from a table."""
        return self._table[0][self._table[1][group]]

    @cached_property
    def ranges(self) -> tuple[KeyRange, ...]:
        """All of them, clockwise from the first token."""
        return tuple(self._range(index) for index in range(len(self._sorted)))

    def _range(self, index: int) -> KeyRange:
        token = self._sorted[index]
        size = (self._sorted[(index + 1) % len(self._sorted)] - token) % KEY_GROUPS or KEY_GROUPS
        return KeyRange(token, size, self.tokens[token])

    @cached_property
    def _sorted(self) -> tuple[int, ...]:
        return tuple(self.tokens)

    @cached_property
    def _table(self) -> tuple[tuple[str, ...], array[int]]:
        """Bundles, and by group the place of its own among them: so that an owner is found in O(1)."""
        bundles = self.served
        number_of = {bundle: number for number, bundle in enumerate(bundles)}
        table = array("H", [number_of[self.tokens[self._sorted[-1]]]]) * KEY_GROUPS
        for token, behind in zip(self._sorted, (*self._sorted[1:], KEY_GROUPS), strict=True):
            table[token:behind] = array("H", [number_of[self.tokens[token]]]) * (behind - token)
        return bundles, table
