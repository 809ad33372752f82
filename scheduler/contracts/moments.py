"""Moments in contracts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LATEST_MS = 253_402_300_799_999  # the end of the year 9999, which is the last that dates have

# In ms since 1970. Another number is refused with what it is part of: no page could write it as a date.
MomentMs = Annotated[int, Field(ge=0, le=LATEST_MS)]
