"""What a control hash tells a query of single keys of a dynamic task."""

from __future__ import annotations

import json
from collections.abc import Mapping


def told_by_key(control: Mapping[str, str], position: int) -> dict[str, str]:
    """The alternate that is to work for each key at a position; keys that are not there have that of the task."""
    begin = f"{position}:keys:"
    numbers = [int(number) for name in control if (number := name.removeprefix(begin)).isdecimal()]
    return json.loads(control[f"{begin}{max(numbers)}"]) if numbers else {}
