"""What no file of the project may hold, and how long a module may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .sources import PACKAGES, ROOT, name_of, project_files, python_files

LONGEST_MODULE = 400
# A longer module stands here with its reason.
LONGER_FOR_A_REASON: dict[str, str] = {}
# What opens the rooms of these packages, what is put together from several of them, and what several need.
MODULES_BESIDE_ROOMS = {
    "dashboard/operations": {"elements", "key_rings", "live_reader", "models", "selectors", "services"},
    "workers/engine/agents": {"agent_logs", "backoff", "blame", "node_agent", "slot"},
}
TEXT_SUFFIXES = {
    "", ".cfg", ".css", ".csv", ".html", ".in", ".ini", ".java", ".js", ".json", ".jsonl", ".lock", ".lua", ".md",
    ".mjs", ".py", ".sh", ".sql", ".svg", ".toml", ".txt", ".xml", ".yaml", ".yml",
}  # fmt: skip
# Taken over whole from others: their words are their own.
VENDORED = ROOT / "static" / "vendor"
# Joined here, so that this file passes its own test.
REGISTRIES = re.compile("|".join((
    r"\bpypi" + r"\.org", r"pythonhosted" + r"\.org", r"npmjs" + r"\.(?:com|org)", r"repo1?\.maven" + r"\.",
    r"registry\.yarnpkg" + r"\.", r"crates" + r"\.io", r"proxy\.golang" + r"\.", r"hub\.docker" + r"\.",
)))  # fmt: skip
# It begins with what it looks for first: with the look behind in front, each letter of each file would be looked at.
MACHINE_PATHS = re.compile(r"/(?<![\w.]/)(?:root/|home/\w+/|Users/\w+/|work/|opt/(?:pypi|wheels))")
INLINE = re.compile("|".join((
    r"<[a-z][^>]*\s(?:on[a-z]+|style)\s*=", r"<style[\s>]", r"javascript:",
    r'<script(?![^>]*\bsrc=)(?![^>]*type="application/json")[^>]*>',
)), re.IGNORECASE)  # fmt: skip


def own_texts() -> list[Path]:
    return [path for path in project_files() if path.suffix in TEXT_SUFFIXES and not path.is_relative_to(VENDORED)]


def matches(pattern: re.Pattern[str], path: Path) -> list[str]:
    """The lines of a file that match, with their numbers."""
    text = path.read_text(errors="replace")
    if not pattern.search(text):
        return []
    return [f"{number}: {line.strip()[:160]}" for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)]


def test_modules_are_short() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files(*PACKAGES, "tests")}
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_MODULE}
    assert {name: length for name, length in too_long.items() if name not in LONGER_FOR_A_REASON} == {}


@pytest.mark.parametrize("folder", MODULES_BESIDE_ROOMS)
def test_modules_are_in_rooms(folder: str) -> None:
    assert {path.stem for path in (ROOT / folder).glob("*.py")} == {"__init__", *MODULES_BESIDE_ROOMS[folder]}, (
        "a module goes into the room that its subject is in")


def test_reasons_are_for_files_that_need_one() -> None:
    for name in LONGER_FOR_A_REASON:
        assert len((ROOT / name).read_text().splitlines()) > LONGEST_MODULE, f"{name} needs no reason any more"


def test_no_file_names_a_package_registry() -> None:
    assert {name_of(path): lines for path in own_texts() if (lines := matches(REGISTRIES, path))} == {}


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert {name_of(path): lines for path in own_texts() if (lines := matches(MACHINE_PATHS, path))} == {}


def test_markup_has_neither_behaviour_nor_style() -> None:
    pages = [path for path in project_files() if path.suffix == ".html" and path.is_relative_to(ROOT / "templates")]
    # The whole text at once: a tag may span lines.
    assert {name_of(path): markup for path in pages if (markup := INLINE.findall(path.read_text()))} == {}


@pytest.mark.parametrize("markup", [
    '<button onclick="approve(7)">', "<p style='color: red'>", "<style>", "<script>alert(1)</script>",
    '<a href="javascript:alert(1)">', '<p\n  class="a"\n  style="color: red">',
])
def test_the_check_of_markup_sees(markup: str) -> None:
    assert INLINE.search(markup)


@pytest.mark.parametrize("markup", [
    '<button data-action="approve" data-plan="7">', '<script src="/static/a.js" defer></script>', '<link rel="icon">',
    '<script id="facts" type="application/json">', '<p class="style">on = off</p>',
])
def test_the_check_of_markup_lets_pass(markup: str) -> None:
    assert not INLINE.search(markup)


@pytest.mark.parametrize("line", ["see https://pypi" + ".org/simple", "FROM hub.docker" + ".com/x"])
def test_the_check_for_registries_sees(line: str) -> None:
    assert REGISTRIES.search(line)


@pytest.mark.parametrize("line", ["cd /" + "work/main", 'open("/' + 'home/ada/x")', "PATH=/" + "root/bin"])
def test_the_check_for_paths_sees(line: str) -> None:
    assert MACHINE_PATHS.search(line)
