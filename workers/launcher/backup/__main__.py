"""`python -m workers.launcher.backup backup|restore FILE`."""

import sys

from .backup_cli import main

sys.exit(main(sys.argv[1:]))
