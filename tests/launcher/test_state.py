"""The data folder: this user's alone, whoever made it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from workers.launcher import state
from workers.launcher.state import CannotStart


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o755)
    return made


def test_a_new_folder_is_closed_to_others(tmp_path: Path):
    with state.lock(tmp_path / "new" / "data"):
        assert mode(tmp_path / "new" / "data") == 0o700


@pytest.mark.parametrize("holds", [(), ("lock", "secret_key", "weir.sqlite3"), ("replay",)])
def test_a_folder_that_was_there_is_closed(folder: Path, holds: tuple[str, ...]):
    for name in holds:
        (folder / name).touch()
    with state.lock(folder):
        assert mode(folder) == 0o700


@pytest.mark.parametrize(("holds", "bits"), [(("letters.txt",), 0o755), ((), 0o1777), (("lock",), 0o1777)])
def test_a_folder_of_others_is_refused_and_left_as_it_is(folder: Path, holds: tuple[str, ...], bits: int):
    for name in holds:
        (folder / name).touch()
    folder.chmod(bits)
    with pytest.raises(CannotStart, match="chmod 700"):
        state.lock(folder)
    assert mode(folder) == bits and {path.name for path in folder.iterdir()} == set(holds)


def test_one_that_is_not_ours_to_close_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "chmod", lambda self, bits: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(CannotStart, match="its owner"):
        state.lock(folder)


def test_what_is_closed_already_is_left_as_it_is(folder: Path):
    folder.chmod(0o700)
    (folder / "letters.txt").touch()
    with state.lock(folder):
        assert mode(folder) == 0o700
