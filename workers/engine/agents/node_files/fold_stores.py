"""The node's fold stores (``workers.library.state_store``), as records of fragments point to them.

A store stays on the node when a fragment hands over: the heir goes on with the store at the version that the record
names. It is deleted once neither its maker's checkpoint nor a record that names it is left. State leaves the node as
rows (``store_copies``), or as a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scheduler.contracts.savepoints import States
from workers.engine.channels.keys import gift_name
from workers.library.key_rows import GivenRows, as_of, bring, is_by_key
from workers.library.key_states import KeyRanges, states_of_keys
from workers.library.state import fold_name
from workers.library.state_store import SUFFIX, Pointer, read_whole
from workers.library.store_files import StateLost, remove

FOLDER = "folds"
_NAME = re.compile(rb"(?<![\w.-])[\w.-]+" + re.escape(SUFFIX).encode() + rb'(?=\\*")')
_MOST_READ = 8 << 20  # bytes of a record: one that has more has large states itself
_KEYS = "keys"  # in the name of a store, where others have made's random characters
_RECORDS = ("held", "ended", "received", "begun")  # in the order in which a name goes from one to the next


@dataclass(frozen=True, slots=True)
class LeftKeys:
    """States that were left for an heir, of which the keys in some ranges count. Where these are ``is_final`` whoever
    has left them works on, and its store may be at any later version."""

    states: States
    ranges: tuple[tuple[int, int], ...]
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class FoldStores:
    """The stores of a data folder."""

    data_dir: Path

    @property
    def folder(self) -> Path:
        """The folder of the stores."""
        return self.data_dir / FOLDER

    def bytes_of(self, fragment_id: str) -> int:
        """About what those take on disk that a fragment works with: its own, and those that it began with."""
        begun = self._checkpoints / f"{fragment_id}.begun"
        names = {path.name for path in self.folder.glob(f"{fragment_id}.*{SUFFIX}")}
        if begun.is_file() and begun.stat().st_size < _MOST_READ:
            names |= set(_names(begun))
        return sum((self.folder / name).stat().st_size for name in names if (self.folder / name).is_file())

    def whole(self, states: States) -> States:
        """The states of a record without pointers."""
        return {task: [self._whole_text(text) for text in texts] for task, texts in states.items()}

    def works_with(self, fragment_id: str) -> dict[str, str]:
        """The stores of a fragment's folds, by `fold_name`: those that it made itself, else those that it began with.

        Empty while the rows of its keys are on their way to it.
        """
        stores: dict[str, str] = {}
        begun = self._checkpoints / f"{fragment_id}.begun"
        has_begun = begun.is_file()
        if has_begun and begun.stat().st_size < _MOST_READ:
            states = json.loads(begun.read_text(encoding="utf-8"))["states"]
            stores = {
                fold_name(task, index): pointer.store for task, texts in states.items()
                for index, text in enumerate(texts) if text and (pointer := Pointer.read(text))}
        for path in self.folder.glob(f"{fragment_id}.*{SUFFIX}"):
            _, fold, *made, _ = path.name.split(".")
            if made and (has_begun or made != [_KEYS]):
                stores[fold] = path.name
        return stores

    def bring_keys(self, heir: str, takes: Mapping[str, KeyRanges]) -> int:
        """Bring an heir's stores a round nearer to the rows of the keys that it takes; about how many characters.

        Parameters
        ----------
        takes : mapping of str to ranges
            Ranges of key groups, by the fragment whose states they are. What is not in a store comes at last.
        """
        rows: dict[str, dict[str, GivenRows]] = {}
        for giver, ranges in takes.items():
            for fold, store in self.works_with(giver).items():
                rows.setdefault(fold, {})[giver] = GivenRows(store, tuple(ranges))
        brought = 0
        for fold, givers in rows.items():
            with suppress(StateLost):  # a giver has another store by now
                if all(is_by_key(self.folder, giver_rows.store) for giver_rows in givers.values()):
                    brought += bring(self.folder, _keys_store(heir, fold), givers)
        return brought

    def keys_taken(self, heir: str, left_keys: Mapping[str, LeftKeys]) -> States:
        """The states that others left for an heir, of the keys that it takes: in a store of its own where all is in
        stores, else as texts.

        Raises
        ------
        StateLost
            A store is gone, or does not have the version that was left.
        """
        folds: dict[tuple[str, int], dict[str, str]] = {}
        for giver, giver_keys in left_keys.items():
            for task, texts in giver_keys.states.items():
                for index, text in enumerate(texts):
                    fold = folds.setdefault((task, index), {})
                    fold.update({giver: text} if text is not None else {})
        states: dict[str, list[str | None]] = {}
        for (task, index), texts in sorted(folds.items()):
            task_texts = states.setdefault(task, [])
            text = self._text_of(heir, fold_name(task, index), texts, left_keys)
            task_texts += [None] * (index - len(task_texts)) + [text]
        return states

    def _text_of(self, heir: str, fold: str, texts: Mapping[str, str], left_keys: Mapping[str, LeftKeys]) -> str | None:
        pointers = {giver: Pointer.read(text) for giver, text in texts.items()}
        is_rows = bool(pointers) and all(
            pointer is not None and is_by_key(self.folder, pointer.store) for pointer in pointers.values())
        if not is_rows:
            remove(self.folder / _keys_store(heir, fold))
            return states_of_keys([
                (self._whole_text(text, is_final=left_keys[giver].is_final), left_keys[giver].ranges)
                for giver, text in texts.items()])
        [(giver, pointer), *others] = pointers.items()
        if pointer and not others and pointer.store.startswith(f"{gift_name(giver, heir)}."):
            return str(pointer)  # it came from another node, with these keys alone
        store = _keys_store(heir, fold)
        bring(self.folder, store, {
            giver: GivenRows(
                pointer.store, tuple(left_keys[giver].ranges), None if left_keys[giver].is_final else pointer)
            for giver, pointer in pointers.items() if pointer})
        return str(as_of(self.folder, store))

    def newest(self, fragment_id: str) -> list[Pointer]:
        """The newest versions of the stores that a fragment's folds work with; none where rows of any are not one key's
        each.

        Raises
        ------
        StateLost
            A store is gone.
        """
        stores = sorted(self.works_with(fragment_id).values())
        is_rows = all(is_by_key(self.folder, store) for store in stores)
        return [as_of(self.folder, store) for store in stores] if is_rows else []

    def at_newest(self, states: States) -> States:
        """The states of a record with pointers to the newest versions of its stores."""
        return {
            task: [str(as_of(self.folder, pointer.store)) if text and (pointer := Pointer.read(text)) else text
                   for text in texts] for task, texts in states.items()}

    def given(self, states: States, ranges: KeyRanges, *, is_final: bool) -> States:
        """States of the keys in some ranges, without pointers: for an heir of another node.

        Parameters
        ----------
        is_final : bool
            True where the fragment that has left them works on, so that its store may be at any later version.

        Raises
        ------
        StateLost
            A store is gone, or does not have the version that was left.
        """
        return {
            task: [states_of_keys([(self._whole_text(text, is_final=is_final), tuple(ranges))]) for text in texts]
            for task, texts in states.items()}

    def sweep(self, *, now_s: float, grace_s: float) -> None:
        """Delete the stores that nobody goes on with."""
        old = [
            path for path in self.folder.glob(f"*{SUFFIX}")
            if now_s - max(_changed_s(path), _changed_s(path.with_name(f"{path.name}-wal"))) >= grace_s
            and not (self._checkpoints / path.name.split(".")[0]).is_dir()]
        if not old:
            return
        named = {name for kind in _RECORDS for file in self._checkpoints.glob(f"*.{kind}") for name in _names(file)}
        for path in old:
            if path.name not in named:
                remove(path)

    def _whole_text(self, text: str | None, *, is_final: bool = False) -> str | None:
        pointer = None if text is None else Pointer.read(text)
        if pointer is None:
            return text
        return read_whole(self.folder, as_of(self.folder, pointer.store) if is_final else pointer)

    @property
    def _checkpoints(self) -> Path:
        return self.data_dir / "checkpoints"


def _keys_store(heir: str, fold: str) -> str:
    """The store that the rows of an heir's keys come to."""
    return f"{heir}.{fold}.{_KEYS}{SUFFIX}"


def _names(record: Path) -> Iterator[str]:
    try:
        text = record.read_bytes()
    except FileNotFoundError:
        return
    yield from (name.decode() for name in _NAME.findall(text))


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
