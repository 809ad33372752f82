"""What the documents about the structure name is there."""

from __future__ import annotations

import re

import pytest

from .sources import ROOT

# Files with a folder before them, and folders; a bare file's name may be of any folder.
PATHS = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|html|md|toml|java|lua))?)`")


@pytest.mark.parametrize("document", ["architecture", "extending"])
def test_named_files_and_folders_are_there(document: str) -> None:
    paths = PATHS.findall((ROOT / "docs" / f"{document}.md").read_text())
    assert len(paths) > 10 and [path for path in paths if not (ROOT / path).exists()] == []


def test_every_decision_is_listed_once_by_its_number() -> None:
    records = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    listed = re.findall(r"^\| \[\d{4}\]\(([\w.-]+)\)", (ROOT / "docs" / "decisions" / "README.md").read_text(), re.M)
    assert len(records) > 100 and listed == records
