"""Sample dataflows, to submit as they are or to start from: a YAML document each.

Imports nothing of Weir. Read ``urban_etl.yaml`` first; its neighbours share their first tasks with it.
"""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).resolve().parent
