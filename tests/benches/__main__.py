"""`./weir bench NAME`: run a measurement by its name, with Django set up as for a management command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from scheduler.model.errors import WeirError
from workers.launcher.state_folder import surroundings

NAMES = Path(__file__).with_name("names.txt")


def modules() -> dict[str, str]:
    """Each bench's module, by its name; ``main`` in it takes arguments and returns an exit code."""
    rows = [line.split(maxsplit=2) for line in NAMES.read_text().splitlines()]
    return {name: f"{__package__}.{module}" for name, module, _ in rows}


def main(arguments: Sequence[str]) -> int:
    """Run the bench that the first argument names with the others."""
    name, *rest = arguments or [""]
    if name not in modules():
        print(f"weir: There is no bench {name!r}. `./weir bench` names them.", file=sys.stderr)
        return 1
    os.environ.update(surroundings(os.environ))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    sys.argv = [f"./weir bench {name}", *rest]  # as usage and errors tell it
    try:
        django.setup()
        return import_module(modules()[name]).main(rest)
    except WeirError as error:
        print(f"weir: {error.full_message}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
