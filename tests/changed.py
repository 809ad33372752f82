"""What `./weir test --changed [--changed=REVISION]` runs: the test files that a change reaches.

A test is reached where it imports what has changed, itself or through other modules, or where a ``conftest.py`` above
it does. Imports are grimp's, those within functions too, and three kinds that no import statement shows:

- a module that is named in a string: a process is started by it, a registry or Django loads it. A package that is named
  so stands for all beneath it.
- what a test asks the site for by an address is whatever answers: all that ``dashboard.config.urls`` leads to.
- a file that is no Python reaches the tests that ``FILES`` lists; one that is not listed, all who import the package
  that it lies in.

A change that reaches nobody this way counts as one of its package, and in the end as one of everything: what is unknown
is tested. The architecture's tests read all files and are always among those reached.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dashboard", "scheduler", "tests", "workers")
MAIN = ("main", "master", "origin/HEAD")  # of these the first that there is
ALWAYS = "tests/architecture"
EVERYTHING = "tests"
ADDRESSES = "dashboard.config.urls"

# Who is reached by files that are no Python, by how their paths begin; the first that fits.
FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("templates/", ("tests/pages", "tests/profiles", "tests/browser", "tests/dashboard/test_routes.py")),
    ("static/", ("tests/pages", "tests/browser")),
    ("docs/", ("tests/dashboard/test_api_docs.py", "tests/dashboard/test_command_help.py",
               "tests/dashboard/test_docs_examples.py", "tests/pages/test_help.py")),
    ("README.md", ()),  # the architecture's tests read it
    ("workers/engine/channels/", ("tests/engine/channels", "tests/engine/spark", "tests/engine/agents")),
    ("weir", ("tests/launcher",)),
    (".ci/", ()),
)
# What takes long to start comes later, as if it were further away.
STARTS_MUCH = ("tests/browser/", "tests/engine/spark/", "tests/launcher/")
FURTHER = 2
_OURS = rf"(?:{'|'.join(PACKAGES)})"
_NAMED = re.compile(rf"""["']({_OURS}(?:\.\w+)+)""")
_IMPORTED = re.compile(rf"^\s*from ({_OURS}(?:\.\w+)*) import ([\w, ]+)", re.MULTILINE)  # by a program in a string, too
_ASKS = re.compile(r"\bclient_of\b|^from django\.(?:test|urls) import", re.MULTILINE)

Importers = Mapping[str, Set[str]]


def changed_files(revision: str = "") -> list[str]:
    """Paths that differ from a revision, committed or not, and new ones that git does not ignore.

    Parameters
    ----------
    revision : str, optional
        What git takes for one; if not given, where this branch left the main one.

    Raises
    ------
    SystemExit
        This is no git checkout, or there is no such revision.
    """
    base = revision or next((left for name in MAIN if (left := _git("merge-base", "HEAD", name, fails=False))), "HEAD")
    differing = _git("diff", "--name-only", "--no-renames", base)
    new = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*differing.splitlines(), *new.splitlines()})


def importers_of_all() -> dict[str, set[str]]:
    """By module, who imports it directly, in one of the ways that this module's first lines tell."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    modules = graph.modules
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for imported in graph.find_modules_directly_imported_by(module) | _unseen(module, modules):
            importers[imported].add(module)
    return importers


def reached_by(changed: Iterable[str], importers: Importers) -> dict[str, int]:
    """The test files and folders of tests that changed files reach, as paths from the project's folder.

    Each with the imports that lie between at least: whoever imports a change directly is likeliest to see it.
    """
    reached = {ALWAYS: 0}
    for path in changed:
        for tests, distance in _reached_by_file(path, importers).items():
            reached[tests] = min(distance, reached.get(tests, distance))
    return reached


def nearest_first(reached: Mapping[str, int]) -> list[str]:
    """The test files that are there, in the order in which they are to run."""
    distances: dict[str, int] = {}
    for place, distance in reached.items():
        for path in (ROOT / place).rglob("test_*.py") if (ROOT / place).is_dir() else [ROOT / place]:
            if path.is_file():
                file = str(path.relative_to(ROOT))
                further = distance + FURTHER * file.startswith(STARTS_MUCH)
                distances[file] = min(further, distances.get(file, further))
    return sorted(distances, key=lambda file: (distances[file], file))


def _reached_by_file(path: str, importers: Importers) -> dict[str, int]:
    folder = str(Path(path).parent)
    if path.startswith("tests/") and (not path.endswith(".py") or path.endswith("/conftest.py")):
        return {folder: 0}
    if not path.endswith(".py"):
        for beginning, tests in FILES:
            if path.startswith(beginning):
                return dict.fromkeys(tests, 0)
    reached = _tests_among(_reach({module_of(path)}, importers)) if path.endswith(".py") else {}
    package = ".".join(Path(path).parent.parts)
    while package and not reached:
        beneath = {module for module in importers if module == package or module.startswith(f"{package}.")}
        reached = _tests_among(_reach(beneath, importers))
        package = package.rpartition(".")[0]
    return reached or {EVERYTHING: 0}


def _reach(modules: Set[str], importers: Importers) -> dict[str, int]:
    """These modules and all that import them, through others too; how many imports lie between."""
    reached, waiting = dict.fromkeys(modules, 0), deque(modules)
    while waiting:
        module = waiting.popleft()
        for importer in importers.get(module, set()) - reached.keys():
            reached[importer] = reached[module] + 1
            waiting.append(importer)
    return reached


def _tests_among(reached: Mapping[str, int]) -> dict[str, int]:
    tests = {}
    for module, distance in reached.items():
        package, _, name = module.rpartition(".")
        if module.startswith("tests.") and name.startswith("test_"):
            tests[path_of(module)] = distance
        elif module.startswith("tests.") and name == "conftest":
            tests[package.replace(".", "/")] = distance
    return tests


def _unseen(module: str, modules: Set[str]) -> set[str]:
    """What a module imports by other ways than an import statement of its own."""
    if module.startswith("tests.architecture.") or module == "tests.conftest":
        return set()  # the ones speak of modules, the other serves tests that name what they start themselves
    text, unseen = _source(module), set()
    for name in _NAMED.findall(text):
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if "." in name:
            unseen |= {other for other in modules if other == name or other.startswith(f"{name}.")}
    for package, names in _IMPORTED.findall(text):
        unseen |= {package, *(f"{package}.{name.strip()}" for name in names.split(","))} & modules
    if module.startswith("tests.") and _ASKS.search(text):
        unseen.add(ADDRESSES)
    return unseen - {module}


def module_of(path: str) -> str:
    """The module of a Python file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def path_of(module: str) -> str:
    """The file of a module that is no package."""
    return module.replace(".", "/") + ".py"


def _source(module: str) -> str:
    file = ROOT / path_of(module)
    file = file if file.is_file() else file.with_suffix("") / "__init__.py"
    return file.read_text()


def _git(*arguments: str, fails: bool = True) -> str:
    done = subprocess.run(("git", "-C", str(ROOT), *arguments), capture_output=True, text=True, check=False)
    if done.returncode and fails:
        raise SystemExit(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip() if not done.returncode else ""
