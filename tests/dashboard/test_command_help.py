"""docs/commands.md, which `./weir COMMAND --help` prints, says what the parsers take."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands

from dashboard.commands.describe_commands import DOCUMENT, described
from workers.launcher.state_folder import ROOT, CannotStart, take_data_dir

ANEW = "write it anew: python -m dashboard.commands.describe_commands"


def sections(text: str) -> dict[str, set[str]]:
    """The words of each section; how they are laid out differs from one Python to the next."""
    return {section.partition("\n")[0]: set(re.findall(r"[\w/-]+", section)) for section in text.split("\n## ")[1:]}


def test_the_document_says_of_every_command_what_its_parser_says() -> None:
    written, parsers = sections(DOCUMENT.read_text()), sections(described())
    assert set(written) == set(parsers), ANEW
    assert [name for name in parsers if written[name] != parsers[name]] == [], ANEW
    names = {name for name, app in get_commands().items() if app == "dashboard.commands"} - {"bench"}
    assert names | {"up", "agent", "machine", "spark-cluster", "backup", "restore", "test"} == set(parsers)
    assert str(ROOT) not in DOCUMENT.read_text()


@pytest.mark.parametrize("words", [["--data-dir", "{folder}"], ["--data-dir={folder}"]])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_every_command_knows_the_data_folder(tmp_path: Path, words: list[str], place: int) -> None:
    words = [word.format(folder=tmp_path) for word in words]
    line = ["secret", "list", "city", "--as", "ana"]
    variables = {"WEIR_DATA_DIR": "/elsewhere"}
    assert take_data_dir(["manage.py", *line[:place], *words, *line[place:]], variables) == ["manage.py", *line]
    assert variables == {"WEIR_DATA_DIR": str(tmp_path)}


@pytest.mark.parametrize("words", [["bench", "channels", "--data-dir", "x"], ["submit", "--", "--data-dir"]])
def test_what_is_not_asked_of_the_command_is_left_alone(words: list[str]) -> None:
    variables: dict[str, str] = {}
    assert take_data_dir(["manage.py", *words], variables) == ["manage.py", *words] and variables == {}


@pytest.mark.parametrize("words", [["--data-dir", "none"], ["--data-dir"], ["--data-dir="], ["--data-dir", "--as"]])
def test_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path, words: list[str]) -> None:
    words = [word.replace("none", str(tmp_path / "none")) for word in words]
    with pytest.raises(CannotStart, match="--data-dir names"):
        take_data_dir(["manage.py", "secret", *words], {})
    done = subprocess.run(
        (sys.executable, "-P", str(ROOT / "manage.py"), "secret", "list", "city", *words), env=os.environ,
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.startswith("weir: --data-dir") and done.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()
