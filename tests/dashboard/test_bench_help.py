"""docs/benches.md, which `./weir bench NAME --help` prints, says what the parsers take."""

from __future__ import annotations

import re

from dashboard.commands.benches import BENCHES
from dashboard.commands.describe_benches import DOCUMENT, help_of


def test_the_document_has_every_bench_with_its_options() -> None:
    text = DOCUMENT.read_text()
    sections = {section.partition("\n")[0]: section for section in text.split("\n## ")[1:]}
    assert set(sections) == {"bench", *BENCHES}, "write it anew: python -m dashboard.commands.describe_benches"
    for name, bench in BENCHES.items():
        assert f"{name} " in sections["bench"]
        options = set(re.findall(r"--[a-z][a-z-]*", help_of(bench)))
        assert options and set(re.findall(r"--[a-z][a-z-]*", sections[name])) >= options, name
