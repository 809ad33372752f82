"""Which version of Weir measured."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.engine.measuring import version


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    version.weir_version.cache_clear()
    yield
    version.weir_version.cache_clear()


def test_a_checkout_is_told_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                       capture_output=True)

    monkeypatch.setattr(version, "ROOT", tmp_path)
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    git("tag", "v9")
    label = version.weir_version()
    assert "(" in label and "v9" not in label and "dirty" not in label
    (tmp_path / "file").write_text("two")
    version.weir_version.cache_clear()
    assert version.weir_version() == label.replace(")", "-dirty)")


def test_without_a_checkout_it_is_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "ROOT", tmp_path)
    assert version.weir_version() and "(" not in version.weir_version()
