"""A ring whose tokens change one at a time, as played worlds change it; on Spark rings are cut anew as a whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from scheduler.model.ring import KEY_GROUPS, KeyRange, Ring


class ElasticRing(Ring):
    """A ring, and others that are one change away from it."""

    def range_of(self, group: int) -> KeyRange:
        """The range that a group is in."""
        return self._range(bisect_right(self._sorted, group) - 1)

    def clockwise(self, token: int) -> Iterator[KeyRange]:
        """The ranges behind a token's own, each once, up to the one before it."""
        index = self._index(token)
        return (self._range((index + step) % len(self._sorted)) for step in range(1, len(self._sorted)))

    def with_token(self, token: int, bundle: str) -> ElasticRing:
        """Another token: its bundle takes what is behind it of the range that it stands in."""
        if token in self.tokens or not 0 <= token < KEY_GROUPS:
            why = f"{self.tokens[token]} has it" if token in self.tokens else f"groups are 0 to {KEY_GROUPS - 1}"
            raise ValueError(f"token {token} cannot be set for {bundle}: {why}; choose a group inside of a range")
        return replace(
            self, tokens={**self.tokens, token: bundle},
            leaving=tuple(other for other in self.leaving if other != bundle))

    def with_token_moved(self, token: int, to: int) -> ElasticRing:
        """A token elsewhere between its neighbours: it and the range before it change, no other does."""
        index, count = self._index(token), len(self._sorted)
        before, behind = self._sorted[index - 1], self._sorted[(index + 1) % count]
        reach = (behind - before) % KEY_GROUPS or KEY_GROUPS
        if not 0 <= to < KEY_GROUPS or not (count == 1 or 0 < (to - before) % KEY_GROUPS < reach):
            raise ValueError(f"token {token} cannot move to {to}: choose a group between {before} and {behind}")
        tokens = {other: bundle for other, bundle in self.tokens.items() if other != token}
        return replace(self, tokens={**tokens, to: self.tokens[token]})

    def with_owner(self, token: int, bundle: str) -> ElasticRing:
        """The range of a token with another bundle. Who has none any more leaves."""
        self._index(token)
        tokens = {**self.tokens, token: bundle}
        gone = {self.tokens[token]} - set(tokens.values())
        return replace(self, tokens=tokens, leaving=(*(other for other in self.leaving if other != bundle), *gone))

    def merged(self) -> ElasticRing:
        """The same without tokens that make no difference: those behind another one of the same bundle."""
        needed = {
            token: bundle for index, (token, bundle) in enumerate(self.tokens.items())
            if self.tokens[self._sorted[index - 1]] != bundle}
        return replace(self, tokens=needed or {self._sorted[0]: self.tokens[self._sorted[0]]})

    def moved_to(self, after: ElasticRing) -> tuple[tuple[KeyRange, str], ...]:
        """What changes hands where another ring of the same key takes its place: ranges as they were cut by the tokens
        of both, each with its new bundle; ``KeyRange.bundle`` is the old one."""
        cuts = sorted({*self._sorted, *after._sorted})
        moves = []
        for index, cut in enumerate(cuts):
            size = (cuts[(index + 1) % len(cuts)] - cut) % KEY_GROUPS or KEY_GROUPS
            old, new = self.owner(cut), after.owner(cut)
            if old != new:
                moves.append((KeyRange(cut, size, old), new))
        return tuple(moves)

    def _index(self, token: int) -> int:
        index = bisect_right(self._sorted, token) - 1
        if index < 0 or self._sorted[index] != token:
            raise ValueError(f"there is no token {token}: choose one of {list(self._sorted)}")
        return index
