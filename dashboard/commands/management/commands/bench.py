"""`./weir bench NAME`: run a measurement; each prints a table and writes a JSON file."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser
from importlib import import_module

from django.core.management.base import BaseCommand, CommandError

from dashboard.commands.benches import BENCHES
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "Run a measurement by name; without a name, list them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="otherwise all are listed")
        parser.add_argument("arguments", nargs=REMAINDER, help="its own; --help after the name tells them")

    def handle(self, *, name: str | None, arguments: list[str], **_: object) -> None:
        if name is None:
            for bench in BENCHES.values():
                self.stdout.write(f"{bench.name:24} {bench.doc}")
            return
        if name not in BENCHES:
            raise CommandError(f"There is no bench {name!r}. Known: {', '.join(BENCHES) or 'none'}.")
        module, _, function = BENCHES[name].run.partition(":")
        try:
            code = getattr(import_module(module), function)(arguments)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        raise SystemExit(code)
