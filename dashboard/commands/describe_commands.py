"""Writes docs/commands.md: what each word of `./weir` takes, so that asking for help takes neither set-up nor time.

    python -m dashboard.commands.describe_commands
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from django.core.management import get_commands, load_command_class
from django.core.management.base import DjangoHelpFormatter

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "commands.md"
LAUNCHER = {
    "up": ("workers.launcher",), "agent": ("workers.launcher.agent",),
    "machine": ("workers.launcher.machine",),
    "spark-cluster": ("workers.launcher.spark_cluster",), "backup": ("workers.launcher.backup", "backup"),
    "restore": ("workers.launcher.backup", "restore")}
WIDTH = "110"
BEGINNING = """# Commands

What each word of `./weir` takes. This page is written by `python -m dashboard.commands.describe_commands`;
`./weir COMMAND --help` prints its section. What they are for: [operations](operations.md#commands). Measurements have
`./weir bench --help`.

"""
TEST = """usage: weir test [--long] [arguments of pytest]

Run every test.

options:
  --long             also what takes minutes, and all cases of each property
  PATH, -m, -k, ...  as of pytest: with a path or a marker, one run of just that
"""
# Django's own, which no command needs.
_OF_DJANGO = DjangoHelpFormatter.show_last - {"--verbosity"}


def described() -> str:
    """The whole document. Django must be set up."""
    with patch.dict(os.environ, {**_plain_environment(), "COLUMNS": WIDTH}, clear=True):
        texts = {word: _help_text(*module) for word, module in LAUNCHER.items()} | dict(_of_django()) | {"test": TEST}
    return BEGINNING + "\n".join(f"## {word}\n\n```\n{text}```\n" for word, text in sorted(texts.items()))


def _plain_environment() -> dict[str, str]:
    """Defaults are those of an installation of which nothing was said."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WEIR_") and name != "REDIS_URL"}


def _help_text(module: str, *words: str) -> str:
    command = (sys.executable, "-P", "-m", module, *words, "--help")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _of_django() -> Iterator[tuple[str, str]]:
    for word, app in get_commands().items():
        if app != "dashboard.commands" or word == "bench":
            continue
        parser = load_command_class(app, word).create_parser("./weir", word)
        parser.add_argument("--data-dir", help="folder of all state, as of ./weir up")
        yield word, "\n".join(_help_of(parser))


def _help_of(parser: ArgumentParser) -> Iterator[str]:
    """The help of a command and of its parts."""
    for action in parser._actions:
        if _OF_DJANGO.intersection(action.option_strings):
            action.help = SUPPRESS
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for part in action.choices.values():
                yield from _help_of(part)


def main() -> None:
    """Write it."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    django.setup()
    DOCUMENT.write_text(described())


if __name__ == "__main__":
    sys.exit(main())
