"""docs/contracts.md: the JSON Schemas of the contracts, made from their values.

``python -m scheduler.contracts.describe`` writes them anew; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path

from .codec import Codec
from .desired import DESIRED_STATES, WANTED_FRAGMENTS
from .reports import NODE_REPORTS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "contracts.md"
BEGIN, END = "<!-- begin: made by scheduler.contracts.describe -->", "<!-- end -->"
CONTRACTS: dict[str, tuple[Codec, str]] = {
    "Desired state of a node": (
        DESIRED_STATES, "`weir:desired:<node>` in the broker, `nodes/<node>/desired.json` in the data folder."),
    "A fragment that a slot has started": (
        WANTED_FRAGMENTS, "`nodes/<node>/slot-<n>/<fragment>.json` and `checkpoints/<fragment>.json`."),
    "Report of a node": (NODE_REPORTS, "`weir:observed:<node>` in the broker, for 15 s."),
}


def described() -> str:
    """The schemas, each with where its documents are."""
    parts = [
        f"## {title}\n\n{where}\n\n```json\n{json.dumps(codec.schema(), indent=1, sort_keys=True)}\n```"
        for title, (codec, where) in CONTRACTS.items()]
    return "\n\n".join(parts)


def main() -> None:
    """Write them into the document."""
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{described()}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
