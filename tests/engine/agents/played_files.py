"""Played files beside checkpoints: a node's disk as what goes between nodes uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.contracts.savepoints import SAVEPOINTS

if TYPE_CHECKING:
    from .played_queries import Store


class PlayedFiles:
    """Files beside checkpoints by fragment and kind, in memory; what a fragment left is among them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.texts: dict[tuple[str, str], bytes] = {}
        self.may_die: Callable[[], None] = lambda: None  # in the middle of an append

    def _text(self, name: str, kind: str) -> bytes | None:
        if kind == "ended":
            ended = self._store.ended(name)
            return None if ended is None else SAVEPOINTS.dumps(ended).encode()
        return self.texts.get((name, kind))

    def size(self, name: str, kind: str) -> int | None:
        text = self._text(name, kind)
        return None if text is None else len(text)

    def stamp(self, name: str, kind: str) -> bytes | None:
        return self._text(name, kind)

    def read(self, name: str, kind: str, first: int = 0, length: int = -1) -> bytes:
        text = self._text(name, kind)
        if text is None:
            raise FileNotFoundError(name, kind)
        return text[first:] if length < 0 else text[first : first + length]

    def write(self, name: str, kind: str, text: bytes) -> None:
        self.texts[name, kind] = text

    def append(self, name: str, kind: str, text: bytes, *, at: int) -> None:
        before = self.texts.get((name, kind), b"")[:at]
        self.texts[name, kind] = before + text[: len(text) // 2]
        self.may_die()
        self.texts[name, kind] = before + text

    def require_room(self, more_bytes: int) -> None:
        pass

    def rename(self, name: str, kind: str, to: str) -> None:
        self.texts[name, to] = self.texts.pop((name, kind))

    def date(self, name: str, kind: str, at_ms: int) -> None:
        pass

    def drop(self, name: str, *kinds: str) -> None:
        for kind in kinds:
            self.texts.pop((name, kind), None)

    def kinds(self, name: str, beginning: str) -> tuple[str, ...]:
        return tuple(kind for other, kind in self.texts if other == name and kind.startswith(beginning))
