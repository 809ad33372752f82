"""`python -m workers.launcher.backup backup|restore FILE`."""

import sys

from .commands import main

sys.exit(main(sys.argv[1:]))
