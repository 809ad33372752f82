"""What a process of the site loads before it serves: no first visitor waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

from dashboard.config.environment import ROOT

CODE = """
import dashboard.config.asgi, sys
from dashboard import jobs
assert jobs.samples.cache_info().currsize == 1
assert "sqlglot" in sys.modules and "dashboard.pages.views.dataflows" in sys.modules
"""


def test_the_task_library_and_the_pages_are_there_before_the_first_request(tmp_path):
    environment = os.environ | {"WEIR_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE], env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=120)
    assert done.returncode == 0, done.stderr
