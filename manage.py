#!/usr/bin/env python
"""Django's management commands, in the surroundings that `./weir up` gives its own processes."""

import os
import sys

from workers.launcher.state_folder import CannotStart, keep_private, surroundings, take_data_dir


def main() -> None:
    """Run the command of the command line."""
    try:
        arguments = take_data_dir(sys.argv, os.environ)
    except CannotStart as error:
        sys.exit(f"weir: {error}")
    os.environ.update(surroundings(os.environ))
    try:
        keep_private(os.environ)
    except CannotStart as error:
        sys.exit(f"weir: {error}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    from django.core.management import execute_from_command_line

    from dashboard.config.environment import InvalidSetting

    try:
        execute_from_command_line(arguments)
    except InvalidSetting as error:
        sys.exit(f"weir: {error.full_message}")


if __name__ == "__main__":
    main()
