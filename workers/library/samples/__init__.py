"""Sample dataflows, to submit as they are or to start from: a YAML document each.

Those in ``live`` read and write other systems, and are there to be set to one's own.
Imports nothing of Weir. Read ``urban_etl.yaml`` first; its neighbours share their first tasks with it.
"""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).resolve().parent
