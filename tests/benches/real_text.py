"""Real text: what the Python packages of this installation say of themselves, in licences and descriptions.

Its words come as often as words do in English: few very often, most hardly ever. Nothing is drawn by chance.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import distributions

_TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "METADATA")
_WORD = re.compile(r"[a-z]+")


@lru_cache(maxsize=1)
def lines_of_text() -> tuple[str, ...]:
    """Each line that has words, as its words in lower case with a space between; packages by name."""
    lines: list[str] = []
    for package in sorted(distributions(), key=lambda package: package.metadata["Name"] or ""):
        for file in sorted(package.files or (), key=str):
            if ".dist-info/" in str(file) and any(name in file.name.upper() for name in _TEXTS):
                text = file.locate().read_text(encoding="utf-8", errors="replace")
                lines += [" ".join(words) for line in text.lower().splitlines() if (words := _WORD.findall(line))]
    return tuple(lines)


def words_of_text() -> list[str]:
    """All its words, one after the other."""
    return [word for line in lines_of_text() for word in line.split(" ")]
