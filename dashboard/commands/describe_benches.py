"""Writes docs/benches.md: what each measurement does and takes, so that asking for help takes no set-up.

    python -m dashboard.commands.describe_benches
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from pathlib import Path

from dashboard.commands.benches import BENCHES, Bench

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benches.md"
BEGINNING = """# Measurements

`./weir bench NAME` runs a measurement, prints a table and writes JSON. This page is written by
`python -m dashboard.commands.describe_benches`; `./weir bench NAME --help` prints its section.

"""


def described() -> str:
    """The whole document; benches of the site need Django to be set up."""
    names = "\n".join(f"{bench.name:18}{bench.doc}" for bench in BENCHES.values())
    sections = [f"## bench\n\n```\nusage: ./weir bench NAME [its own options]\n\n{names}\n```\n"]
    sections += [f"## {bench.name}\n\n```\n{help_of(bench)}```\n" for bench in BENCHES.values()]
    return BEGINNING + "\n".join(sections)


def help_of(bench: Bench) -> str:
    """What its parser says of itself."""
    module, _, function = bench.run.partition(":")
    before, sys.argv = sys.argv, [f"./weir bench {bench.name}"]
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "110"
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            getattr(import_module(module), function)(["--help"])
    finally:
        sys.argv = before
        del os.environ["COLUMNS"]
        if width is not None:
            os.environ["COLUMNS"] = width
    return output.getvalue()


def main() -> None:
    """Write it."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    django.setup()
    DOCUMENT.write_text(described())


if __name__ == "__main__":
    main()
